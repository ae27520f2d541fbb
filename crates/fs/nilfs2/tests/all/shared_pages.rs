//! Pages that the page cache and the device have: named once, with the block where their bytes stand.

use crate::support;

use block_medium::{BlockMedium, MemoryMedium, Pending, WriteFlags};
use board::Board;
use nilfs2::{FormatOptions, Nilfs2, format};
use random::Stream;
use shared_page::{PageHolder, SharedPage};
use std::cell::Cell;
use std::rc::Rc;
use support::{CALLER, quiet, run};
use units::PAGE_BYTES;
use vfs::{OpenOptions, Vfs};

const PAGES: u64 = 96;

/// A device in memory that lends the bytes of its blocks.
struct Lender {
    blocks: Rc<Blocks>,
    lent: Cell<u64>,
}

struct Blocks(MemoryMedium);

impl PageHolder for Blocks {
    fn copy_page(&self, place: u64, into: &mut [u8; PAGE_BYTES]) {
        into.copy_from_slice(&self.0.block(place));
    }
}

impl BlockMedium for Lender {
    fn block_bytes(&self) -> usize {
        self.blocks.0.block_bytes()
    }

    fn size_bytes(&self) -> u64 {
        self.blocks.0.size_bytes()
    }

    fn read(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        self.blocks.0.read(first_block, blocks)
    }

    fn write(
        &self,
        first_block: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        self.blocks.0.write(first_block, bytes, flags)
    }

    fn keep_once(&self, block: u64, page: &Rc<SharedPage>) {
        // This device has carried the write out already, so what it was told must be true.
        let is_lent = page.lend(&self.blocks, block);
        assert!(is_lent || page.is_lent(), "block {block} has other bytes");
        self.lent.set(self.lent.get() + u64::from(is_lent));
    }

    fn flush(&self) -> Pending<'_, ()> {
        self.blocks.0.flush()
    }
}

#[test]
fn pages_whose_bytes_the_device_lends_read_as_they_were_written() {
    // No segment is used twice, as nothing is cleaned: no block changes while it is lent.
    let medium = MemoryMedium::new(4096, 64 << 20);
    let (_, is_done) = run(medium, |bench| async move {
        let fresh = FormatOptions { blocks_per_segment: 64, ..FormatOptions::default() };
        format(&*bench.medium, &fresh).await.expect("it is made");
        let blocks = Rc::new(Blocks(bench.medium.after_cut(None)));
        let lender = Rc::new(Lender { blocks, lent: Cell::new(0) });
        let fs = Nilfs2::mount(&bench.sim, bench.cpus.clone(), lender.clone(), quiet()).await;
        let board = Rc::new(Board::without_costs());
        let vfs = Vfs::cached(&bench.sim, &bench.cpus, &board, Rc::new(fs.expect("it mounts")));
        let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&CALLER, b"file", options).await.expect("opened");
        let mut model = vec![0; PAGES as usize * PAGE_BYTES];
        let mut stream = Stream::new(3, "shared pages");
        for turn in 0..300_u32 {
            let at = stream.below(model.len() as u32 - 9000) as usize;
            let length = 1 + stream.below(9000) as usize;
            model[at..at + length].fill(turn as u8);
            let bytes = &model[at..at + length];
            vfs.write(&CALLER, &file, at as u64, bytes).await.expect("written");
            match stream.below(6) {
                0 => vfs.fsync(&CALLER, &file).await.expect("synced"),
                1 => vfs.fdatasync(&CALLER, &file).await.expect("synced"),
                2 => vfs.drop_caches().await.expect("dropped"),
                _ => {}
            }
            let size = vfs.stat(b"file").await.expect("there").size_bytes as usize;
            let mut read = vec![0; size];
            assert_eq!(vfs.read(&file, 0, &mut read).await, Ok(size));
            assert!(read == model[..size], "turn {turn}");
        }
        assert!(lender.lent.get() > 200, "{} pages were lent", lender.lent.get());
    });
    assert!(is_done);
}
