//! Random work on the logical blocks of a volume, and what must be found after it.

use random::Stream;
use ubi::{LebNumber, UbiError, Volume};

/// Contents of a logical block: none if it has no physical one; blank pages at its end are left out.
pub(crate) type Content = Option<Vec<u8>>;

/// What is known of a logical block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leb {
    /// What it holds.
    pub(crate) content: Content,
    /// What it may hold again after a power cut: it was unmapped, but not erased for good.
    pub(crate) ghosts: Vec<Content>,
    /// Pages that may hold anything: a write of them was cut, and the page was not written again.
    pub(crate) is_torn: bool,
}

/// What was under way when the power failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    Nothing,
    Write(u32),
    Change(u32, Vec<u8>),
    Unmap(u32),
    Erase(u32),
}

/// The volume as it should be.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) lebs: Vec<Leb>,
    pub(crate) pending: Pending,
    /// A torn erase may leave any page as it was, so that headers stand before blank data.
    pub(crate) has_torn_erases: bool,
    min_io_bytes: usize,
    leb_bytes: usize,
}

fn noise(stream: &mut Stream, bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes + 8);
    while data.len() < bytes {
        data.extend_from_slice(&stream.next_u64().to_le_bytes());
    }
    data.truncate(bytes);
    data
}

impl Model {
    pub(crate) fn new(volume: &Volume) -> Self {
        Self {
            lebs: vec![Leb::default(); volume.leb_count() as usize],
            pending: Pending::Nothing,
            has_torn_erases: false,
            min_io_bytes: volume.min_io_bytes() as usize,
            leb_bytes: volume.leb_bytes() as usize,
        }
    }

    /// One random call; its effect is in `self` as soon as the call has returned.
    // One function: what is pending while a call runs stands beside the call.
    pub(crate) async fn step(
        place: &std::cell::RefCell<Self>,
        volume: &Volume,
        stream: &mut Stream,
    ) -> Result<(), UbiError> {
        let (count, min_io_bytes, leb_bytes) = {
            let model = place.borrow();
            (model.lebs.len() as u32, model.min_io_bytes, model.leb_bytes)
        };
        // Most blocks are cold, so that wear has to be levelled.
        let is_cold = stream.below(10) == 0;
        let lnum = stream.below(if is_cold { count } else { count.div_ceil(3) });
        let leb = place.borrow().lebs[lnum as usize].clone();
        let set = |pending: Pending| place.borrow_mut().pending = pending;
        let end = |leb: Leb| {
            let mut model = place.borrow_mut();
            model.pending = Pending::Nothing;
            model.lebs[lnum as usize] = leb;
        };
        let ghosts = |leb: &Leb| {
            let mut ghosts = leb.ghosts.clone();
            ghosts.extend(leb.content.is_some().then(|| leb.content.clone()));
            ghosts
        };
        match stream.below(20) {
            0..9 => {
                let old = leb.content.clone().unwrap_or_default();
                let room = (leb_bytes - old.len()) / min_io_bytes;
                if room == 0 || leb.is_torn {
                    return Ok(());
                }
                let pages = 1 + stream.below(room.min(3) as u32) as usize;
                let data = noise(stream, pages * min_io_bytes);
                set(Pending::Write(lnum));
                volume.write(LebNumber::new(lnum), old.len() as u32, &data).await?;
                let content = Some([old, data].concat());
                let ghosts = if leb.content.is_none() { Vec::new() } else { leb.ghosts };
                end(Leb { content, ghosts, is_torn: false });
            }
            9..13 => {
                let pages = 1 + stream.below((leb_bytes / min_io_bytes) as u32) as usize;
                let data = noise(stream, pages * min_io_bytes);
                set(Pending::Change(lnum, data.clone()));
                volume.change(LebNumber::new(lnum), &data).await?;
                end(Leb { content: Some(data), ghosts: Vec::new(), is_torn: false });
            }
            13..16 => {
                set(Pending::Unmap(lnum));
                volume.unmap(LebNumber::new(lnum)).await?;
                end(Leb { content: None, ghosts: ghosts(&leb), is_torn: leb.is_torn });
            }
            16..18 => {
                set(Pending::Erase(lnum));
                volume.erase(LebNumber::new(lnum)).await?;
                end(Leb::default());
            }
            _ if leb.content.is_none() => {
                set(Pending::Write(lnum));
                volume.map(LebNumber::new(lnum)).await?;
                end(Leb { content: Some(Vec::new()), ghosts: Vec::new(), is_torn: false });
            }
            _ => {
                let found = read(volume, lnum).await?;
                assert!(leb.is_torn || found == leb.content, "LEB {lnum} reads otherwise");
            }
        }
        assert_eq!(volume.ubi().check_states().await, Vec::<String>::new(), "after LEB {lnum}");
        Ok(())
    }

    /// Compares all blocks with what must be there while nothing is under way.
    pub(crate) async fn compare(&self, volume: &Volume, label: &str) {
        for (leb, lnum) in self.lebs.iter().zip(0..) {
            let found = read(volume, lnum).await.expect("it reads");
            assert_eq!(found.is_some(), leb.content.is_some(), "{label}: LEB {lnum} is mapped");
            assert!(leb.is_torn || found == leb.content, "{label}: LEB {lnum} differs");
        }
    }

    /// Compares what is found after a power cut with all that may be there; then takes it as known.
    pub(crate) async fn adopt(&mut self, volume: &Volume, label: &str) {
        for lnum in 0..self.lebs.len() as u32 {
            let leb = self.lebs[lnum as usize].clone();
            let mut raw = vec![0; self.leb_bytes];
            let status =
                volume.read(LebNumber::new(lnum), 0, &mut raw, false).await.expect("it reads");
            let is_mapped = volume.is_mapped(LebNumber::new(lnum));
            let mut allowed: Vec<(Content, bool)> = vec![(leb.content.clone(), leb.is_torn)];
            allowed.extend(leb.ghosts.iter().map(|ghost| (ghost.clone(), leb.is_torn)));
            match &self.pending {
                Pending::Write(of) if *of == lnum => {
                    // What was there stays; what comes behind it may be anything.
                    allowed.push((Some(leb.content.clone().unwrap_or_default()), true));
                }
                Pending::Change(of, data) if *of == lnum => {
                    allowed.push((Some(data.clone()), false));
                    if leb.content.is_none() {
                        // A change is atomic against what was there; beside nothing, its CRC is
                        // not looked at.
                        allowed.push((Some(Vec::new()), true));
                    }
                }
                Pending::Unmap(of) | Pending::Erase(of) if *of == lnum => {
                    allowed.push((None, false));
                }
                _ => {}
            }
            let is_going = !leb.ghosts.is_empty()
                || matches!(self.pending, Pending::Unmap(of) | Pending::Erase(of) if of == lnum);
            if is_going && self.has_torn_erases {
                allowed.push((Some(Vec::new()), true));
            }
            let matched = allowed.iter().find(|(content, is_torn)| match content {
                None => !is_mapped,
                Some(content) => {
                    let (known, rest) = raw.split_at(content.len());
                    is_mapped
                        && known == content
                        && (*is_torn
                            || (status.is_readable() && rest.iter().all(|byte| *byte == 0xff)))
                }
            });
            let Some((content, is_torn)) = matched.cloned() else {
                panic!(
                    "{label}: LEB {lnum} is none of {} states; mapped {is_mapped}, {status:?}, \
                     pending {:?}, expected mapped {}",
                    allowed.len(),
                    std::mem::discriminant(&self.pending),
                    leb.content.is_some()
                );
            };
            self.lebs[lnum as usize] = Leb { content, ghosts: Vec::new(), is_torn };
        }
        self.pending = Pending::Nothing;
    }
}

/// Contents of a block, without the blank bytes at the end.
async fn read(volume: &Volume, lnum: u32) -> Result<Content, UbiError> {
    let mut content = vec![0; volume.leb_bytes() as usize];
    volume.read(LebNumber::new(lnum), 0, &mut content, false).await?;
    let last = content.iter().rposition(|byte| *byte != 0xff).map_or(0, |at| at + 1);
    content.truncate(last.next_multiple_of(volume.min_io_bytes() as usize));
    Ok(volume.is_mapped(LebNumber::new(lnum)).then_some(content))
}
