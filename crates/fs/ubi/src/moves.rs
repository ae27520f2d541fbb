//! Moving a block's contents to another: wear levelling and scrubbing.
//!
//! Source: `drivers/mtd/ubi/wl.c` (`wear_leveling_worker`) and `eba.c` (`ubi_eba_copy_leb`) of
//! Linux 6.1. A part of the device: uses it, its states and `io.rs`.

use crate::device::Ubi;
use crate::error::UbiError;
use crate::finding::Code;
use crate::headers::{VolumeHeader, VolumeKind, crc32};
use crate::io::HeaderRead;
use crate::numbers::PebNumber;
use crate::wear_state::Move;
use fs_api::Place;
use mtd::written_bytes;

/// Result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// The data is in the target.
    Done,
    /// The block was given back, or its volume is being removed.
    Race,
    /// The logical block is locked by another task.
    Busy,
    /// The target does not take data.
    TargetFailed,
    /// The source cannot be read.
    SourceFailed,
    /// Nothing was written to the source yet.
    NoHeader { had_errors: bool },
}

/// Where a block goes that was not moved.
enum Return {
    Protected,
    Scrub,
    Erroneous,
    Used,
}

impl Ubi {
    /// Moves a block that is little worn, or that needs scrubbing (`wear_leveling_worker`).
    pub(crate) async fn move_block(&self) -> Result<(), UbiError> {
        // Held to the end: `put_block` and `scrub_block` wait for it where they meet a block that
        // is on the move.
        let _moving = self.move_lock.lock().await;
        let begun = self.wear.borrow_mut().begin_move();
        let Some(begun) = begun else {
            // Nothing to be moved after all: the reason for it went away since the work was
            // scheduled.
            self.wear.borrow_mut().end_move();
            return Ok(());
        };
        let from = begun.from;
        match self.copy_block(begun).await {
            Ok(Moved::Done) => self.end_done(begun).await,
            Ok(moved) => self.end_not_done(begun, moved).await,
            Err(error) => {
                self.wear.borrow_mut().end_move();
                self.io.become_read_only(&format!("block {from} could not be moved: {error}"));
                Err(error)
            }
        }
    }

    async fn end_done(&self, Move { from, to, scrubs }: Move) -> Result<(), UbiError> {
        self.io.count(|counts| {
            counts.blocks_scrubbed += u64::from(scrubs);
            counts.blocks_levelled += u64::from(!scrubs);
        });
        let is_put = {
            let mut wear = self.wear.borrow_mut();
            let is_put = wear.end_move();
            if !is_put {
                wear.add_used(to);
            }
            is_put
        };
        // The source after the target is complete and mapped. A cut before it leaves both, with the
        // higher number on the copy.
        self.erase_block(from, false).await?;
        // The logical block was unmapped while its data was on the way: the copy is not wanted
        // either.
        if is_put {
            self.erase_block(to, false).await?;
        }
        Ok(())
    }

    async fn end_not_done(
        &self,
        Move { from, to, scrubs }: Move,
        moved: Moved,
    ) -> Result<(), UbiError> {
        self.io.count(|counts| counts.moves_cancelled += 1);
        let place = match moved {
            // Without protection the least worn block would be chosen again at once, and again in
            // vain.
            Moved::Race | Moved::NoHeader { had_errors: false } => Return::Protected,
            Moved::Busy if !scrubs && self.options.profile.keeps_clean_targets => Return::Used,
            Moved::Busy | Moved::NoHeader { had_errors: true } => Return::Scrub,
            Moved::SourceFailed => Return::Erroneous,
            Moved::TargetFailed if scrubs => Return::Scrub,
            Moved::TargetFailed | Moved::Done => Return::Used,
        };
        // A tenth of the blocks, sixteen at least (`max_erroneous` in `io_init`).
        let erroneous_max = (self.io.layout.peb_count as usize / 10).max(16);
        // Nothing is written to the target before the source is read (`dst_leb_clean` in
        // `wear_leveling_worker`, which sets it for `MOVE_SOURCE_RD_ERR`, too).
        let is_untouched = matches!(
            moved,
            Moved::Busy | Moved::Race | Moved::SourceFailed | Moved::NoHeader { .. }
        );
        let stays_free = is_untouched && self.options.profile.keeps_clean_targets;
        let too_many = {
            let mut wear = self.wear.borrow_mut();
            // Compared before this one is added (`wear_leveling_worker`): one block more than the
            // limit may be erroneous.
            let too_many = moved == Moved::SourceFailed && wear.erroneous_count() > erroneous_max;
            match place {
                Return::Protected => wear.protect(from),
                Return::Scrub => wear.add_scrub(from),
                Return::Erroneous => wear.add_erroneous(from),
                Return::Used => wear.add_used(from),
            }
            wear.end_move();
            // Nothing was written to the target: an erase would only wear it.
            if stays_free {
                wear.add_free(to);
                wear.schedule_move();
            }
            too_many
        };
        if too_many {
            self.io.become_read_only("too many blocks cannot be read");
            return Err(UbiError::ReadOnly);
        }
        if stays_free {
            return Ok(());
        }
        // Erased here and now, as newer workers do (`do_sync_erase` of `wl.c`), not as another
        // work.
        self.erase_block(to, moved == Moved::TargetFailed).await
    }

    async fn copy_block(&self, begun: Move) -> Result<Moved, UbiError> {
        let from = begun.from;
        let header = match self.io.read_header(from).await? {
            HeaderRead::Sound { header, .. } => header,
            // A block that was just taken: its header comes with the first write, and this move
            // came in between.
            HeaderRead::Blank { had_errors } => return Ok(Moved::NoHeader { had_errors }),
            HeaderRead::Bad { .. } => {
                let reason = "its volume identifier header cannot be read any more".to_owned();
                return Err(UbiError::Corrupt { peb: from, reason });
            }
        };
        // Never wait for a logical block here: its holder may wait for the move.
        let address = header.address();
        let lock = self.leb_locks.of(address);
        let Some(_held) = lock.try_write() else { return Ok(Moved::Busy) };
        // Asked under the lock: the block may have been replaced, or its volume removed, after the
        // header was read.
        if self.mapping(address) != Some(from) {
            return Ok(Moved::Race);
        }
        self.copy_data(begun, header).await
    }

    /// Copies a logical block that is locked (`ubi_eba_copy_leb`).
    // One function: what a power cut finds depends on the order of its writes.
    async fn copy_data(&self, begun: Move, header: VolumeHeader) -> Result<Moved, UbiError> {
        let Move { from, to, .. } = begun;
        let layout = &self.io.layout;
        let is_static = header.volume_kind() == Some(VolumeKind::Static);
        let bytes = if is_static {
            header.data_bytes.next_multiple_of(layout.min_io_bytes)
        } else {
            layout.usable_bytes(header.data_pad)
        };
        // Under the lock of the logical block and never the other way round (`buf_mutex`).
        let _buffer = self.buffer_lock.lock().await;
        let mut data = vec![0xff; bytes as usize];
        if !self.io.read_data(from, 0, &mut data).await?.is_readable() {
            self.io.find(
                Code::UnreadableSource,
                Place::Block(from.into()),
                format!("block {from} cannot be read and stays where it is"),
            );
            return Ok(Moved::SourceFailed);
        }
        let mut header = header;
        if !is_static {
            // Blank pages at the end are not written, so that the user can write them later.
            data.truncate(data_length(&data, layout.min_io_bytes));
            header.data_bytes = data.len() as u32;
        }
        debug_assert!(
            data.len().is_multiple_of(layout.min_io_bytes as usize),
            "whole pages are copied"
        );
        let covered = &data[..header.data_bytes as usize];
        self.io.charge_crc(covered.len()).await;
        if header.data_bytes > 0 {
            header.copy_flag = 1;
            header.data_crc = crc32(covered);
        } else {
            (header.copy_flag, header.data_crc) = (0, 0);
        }
        // Copies have new numbers though the data is old, or the scan could not tell which to keep;
        // the CRC makes up for a copy that is cut.
        header.sequence_number = self.next_sequence_number();
        if let Err(error) = self.io.write_header(to, &header).await {
            return failed_target(error);
        }
        // Read back even where data are not (`ubi_eba_copy_leb`): a header that is lost later takes
        // the only copy with it.
        match self.io.read_header(to).await? {
            HeaderRead::Sound { had_errors: false, .. } => {}
            _ => return Ok(Moved::TargetFailed),
        }
        if !data.is_empty() {
            if let Err(error) = self.io.write_data(to, 0, &data).await {
                return failed_target(error);
            }
            if self.options.profile.verifies_moves && !self.verify(to, &data).await? {
                return Ok(Moved::TargetFailed);
            }
        }
        // Last of all: until here readers are served by the source.
        self.set_mapping(header.address(), Some(to));
        Ok(Moved::Done)
    }

    /// Reads back what was written.
    async fn verify(&self, peb: PebNumber, data: &[u8]) -> Result<bool, UbiError> {
        let mut back = vec![0; data.len()];
        let status = self.io.read_data(peb, 0, &mut back).await?;
        self.io.charge_copy(back.len()).await;
        Ok(status.is_readable() && status.corrected_bits == 0 && back == data)
    }
}

fn failed_target(error: UbiError) -> Result<Moved, UbiError> {
    if error.is_io() { Ok(Moved::TargetFailed) } else { Err(error) }
}

/// Bytes up to the last one that is not blank, in whole units (`ubi_calc_data_len`).
pub(crate) fn data_length(data: &[u8], min_io_bytes: u32) -> usize {
    written_bytes(data).next_multiple_of(min_io_bytes as usize).min(data.len())
}
