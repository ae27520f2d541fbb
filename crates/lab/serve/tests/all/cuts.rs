//! Power cuts under clients that know what each sector may hold afterwards.
//!
//! The client numbers its writes, and keeps those of each sector from the last durable one on. A write is durable once
//! a flush was replied to that was sent after the write's own reply, or once the write itself was replied to and had
//! force unit access. After a cut a sector may hold the last durable write or a later one. Everything else is a
//! version that is not permitted.

use crate::client::{Answer, Client};
use crate::support::{Folder, core, options, socket, spec, start};
use device::DeviceSpec;
use nbd::{Command, command_flag};
use random::Stream;
use serve::{CutAfter, Pace, Server};
use std::collections::BTreeMap;

const SECTOR: usize = 512;
const SECTORS: u64 = 1_500;

/// A mistake of a device, made between it and the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A write with force unit access is sent without.
    FuaIsIgnored,
    /// A flush is never sent, and counts as answered.
    FlushIsEarly,
}

/// A write of a sector.
#[derive(Clone, Copy, Debug)]
struct Write {
    number: u64,
    is_replied: bool,
    is_durable: bool,
}

#[derive(Clone, Debug)]
enum Sent {
    Write { number: u64, sector: u64, sectors: u64, is_fua: bool },
    Flush { covers: Vec<u64> },
}

/// What the client knows.
struct Host {
    fault: Fault,
    /// By sector: the last durable write and those after it.
    written: BTreeMap<u64, Vec<Write>>,
    last_number: u64,
    sent: BTreeMap<u64, Sent>,
    draw: Stream,
    /// Sectors that a cut set back to a durable write although a later one was replied to.
    set_back: u64,
}

fn bytes_of(number: u64, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&[number, sector ^ number << 32][index % 2].to_le_bytes());
    }
    if number == 0 { [0; SECTOR] } else { bytes }
}

impl Host {
    fn new(fault: Fault, seed: u64) -> Self {
        Self {
            fault,
            written: BTreeMap::new(),
            last_number: 0,
            sent: BTreeMap::new(),
            draw: Stream::new(seed, "clients under power cuts"),
            set_back: 0,
        }
    }

    /// Sends a request that is drawn; none if the connection is dead.
    fn send(&mut self, client: &mut Client) -> Option<()> {
        if self.draw.below(12) == 0 {
            let replied = |writes: &Vec<Write>| {
                writes.iter().filter(|write| write.is_replied).map(|write| write.number).max()
            };
            let covers: Vec<u64> = self.written.values().filter_map(replied).collect();
            if self.fault == Fault::FlushIsEarly {
                self.mark(&Sent::Flush { covers });
                return Some(());
            }
            let cookie = client.send(Command::Flush, 0, 0, 0, &[])?;
            self.sent.insert(cookie, Sent::Flush { covers });
            return Some(());
        }
        let sectors = 1 + u64::from(self.draw.below(24));
        let sector = u64::from(self.draw.below((SECTORS - sectors) as u32));
        let is_fua = self.draw.below(8) == 0;
        self.last_number += 1;
        let number = self.last_number;
        let flags = if is_fua && self.fault != Fault::FuaIsIgnored { command_flag::FUA } else { 0 };
        for sector in sector..sector + sectors {
            self.written.entry(sector).or_default().push(Write {
                number,
                is_replied: false,
                is_durable: false,
            });
        }
        let bytes: Vec<u8> =
            (sector..sector + sectors).flat_map(|sector| bytes_of(number, sector)).collect();
        let place = sector * SECTOR as u64;
        let cookie = client.send(Command::Write, flags, place, bytes.len() as u32, &bytes)?;
        self.sent.insert(cookie, Sent::Write { number, sector, sectors, is_fua });
        Some(())
    }

    fn take_reply(&mut self, client: &mut Client) -> Option<()> {
        let (cookie, answer) = client.reply()?;
        assert_eq!(answer, Answer::Done(Vec::new()));
        let sent = self.sent.remove(&cookie).expect("it was asked for");
        self.mark(&sent);
        Some(())
    }

    fn mark(&mut self, sent: &Sent) {
        match sent {
            Sent::Write { number, sector, sectors, is_fua } => {
                for sector in *sector..sector + sectors {
                    let writes = self.written.entry(sector).or_default();
                    for write in writes.iter_mut().filter(|write| write.number == *number) {
                        (write.is_replied, write.is_durable) = (true, *is_fua);
                    }
                    forget(writes);
                }
            }
            Sent::Flush { covers } => {
                for writes in self.written.values_mut() {
                    for write in writes.iter_mut() {
                        write.is_durable |= covers.binary_search(&write.number).is_ok()
                            || covers.contains(&write.number);
                    }
                    forget(writes);
                }
            }
        }
    }

    /// Reads everything and compares; what is read is durable from then on.
    fn check(&mut self, client: &mut Client) -> Result<(), String> {
        self.sent.clear();
        let mut found = Vec::new();
        for place in (0..SECTORS * SECTOR as u64).step_by(1 << 18) {
            let left = SECTORS * SECTOR as u64 - place;
            let length = left.min(1 << 18) as u32;
            found.extend(client.read(place, length).ok_or("the server is gone")?);
        }
        for (sector, bytes) in (0..).zip(found.chunks_exact(SECTOR)) {
            let writes = self.written.entry(sector).or_default();
            let number = u64::from_le_bytes(*bytes.first_chunk().expect("a sector"));
            let durable = writes.first().is_some_and(|write| write.is_durable);
            let is_permitted =
                writes.iter().any(|write| write.number == number) || (number == 0 && !durable);
            if !is_permitted || bytes != bytes_of(number, sector) {
                let numbers: Vec<u64> = writes.iter().map(|write| write.number).collect();
                return Err(format!(
                    "sector {sector} holds write {number}, and {numbers:?} are permitted"
                ));
            }
            let is_behind = |write: &Write| write.is_replied && write.number > number;
            self.set_back += u64::from(writes.iter().any(is_behind));
            *writes = vec![Write { number, is_replied: true, is_durable: true }];
        }
        Ok(())
    }
}

/// Writes before the last durable one can no longer be read.
fn forget(writes: &mut Vec<Write>) {
    if let Some(last) = writes.iter().rposition(|write| write.is_durable) {
        writes.drain(..last);
    }
}

/// Cuts the power of a server under a client so many times; returns how many sectors were set back.
fn storm(server: &Server, fault: Fault, seed: u64, cuts: u32) -> Result<u64, String> {
    let mut host = Host::new(fault, seed);
    let mut client = Client::connect(socket(server)).ok_or("nobody answers")?;
    for _ in 0..cuts {
        let requests = 1 + host.draw.below(60);
        let depth = 1 + host.draw.below(8) as usize;
        for _ in 0..requests {
            if host.send(&mut client).is_none() {
                break;
            }
            while host.sent.len() >= depth && host.take_reply(&mut client).is_some() {}
        }
        server.cut();
        // Replies that left before the cut still arrive.
        while host.take_reply(&mut client).is_some() {}
        assert!(Client::connect(socket(server)).is_none(), "a device without power answers");
        server.restore().map_err(|error| error.to_string())?;
        client = Client::connect(socket(server)).ok_or("nobody answers after the power is back")?;
        host.check(&mut client)?;
    }
    assert_eq!(server.status().cuts, u64::from(cuts));
    Ok(host.set_back)
}

/// Devices with a cache of each kind, and every layer of the catalogue on one of them.
fn devices() -> Vec<(String, DeviceSpec)> {
    let small = 4 << 20;
    let mut all = Vec::new();
    for device in device::devices() {
        if device.flash.is_some() {
            all.push((device.name.clone(), spec(&device.name, small, &[])));
        }
    }
    for entry in ftl::FTLS {
        let changes = [("flash.ftl", entry.name), ("flash.mapping_unit_bytes", "16384")];
        let mut device = device::find_device("emmc-5.1-64gb").expect("a preset");
        if let Some(flash) = &mut device.flash {
            flash.settings.clear();
        }
        for (key, value) in changes {
            device.set(key, value).expect(key);
        }
        device.set_capacity(64 << 20).expect("smaller");
        all.push((format!("layer {}", entry.name), device));
    }
    all
}

/// `NANDLAB_CUTS` sets the cuts of each device, 20 by default.
#[test]
#[allow(clippy::disallowed_methods, reason = "the test is longer on request")]
#[allow(clippy::print_stdout, reason = "how many cuts there were")]
fn no_cut_leaves_a_version_that_is_not_permitted() {
    let cuts = std::env::var("NANDLAB_CUTS")
        .map_or(20, |text| text.parse().expect("NANDLAB_CUTS is a number of cuts"));
    let (mut set_back, mut all) = (0, 0);
    for (name, device) in devices() {
        let folder = Folder::new();
        let server = start(&options(&folder, core(device, None), Pace::None));
        set_back +=
            storm(&server, Fault::None, 5, cuts).unwrap_or_else(|error| panic!("{name}: {error}"));
        all += u64::from(cuts);
    }
    println!("{all} cuts, {set_back} sectors set back to a version that is permitted");
    // A cache loses what no flush covered; a storm that never sees that would find nothing.
    assert!(set_back > 2 * all, "{set_back}");
}

#[test]
fn nor_does_one_in_real_time() {
    let folder = Folder::new();
    let device = spec("emmc-5.1-64gb", 4 << 20, &[]);
    let server = start(&options(&folder, core(device, None), Pace::Real(1)));
    // A recovery takes a second of the device's time, so there are few.
    let set_back = storm(&server, Fault::None, 7, 8).expect("nothing is lost");
    assert!(set_back > 0);
}

#[test]
fn a_device_that_breaks_its_promise_is_found_within_a_hundred_cuts() {
    for fault in [Fault::FuaIsIgnored, Fault::FlushIsEarly] {
        let folder = Folder::new();
        let device = spec("emmc-5.1-64gb", 4 << 20, &[]);
        let server = start(&options(&folder, core(device, None), Pace::None));
        let error = storm(&server, fault, 7, 100).expect_err("found");
        assert!(error.contains("are permitted"), "{error}");
    }
}

/// The supply fails by itself, in an operation of the chips or at a count.
#[test]
fn a_cut_that_was_planned_comes_where_it_was_planned() {
    for (pace, cut_after) in [
        (Pace::None, CutAfter::Programs(40)),
        (Pace::None, CutAfter::Erases(3)),
        (Pace::None, CutAfter::Flushes(5)),
        (Pace::None, CutAfter::Nanoseconds(20_000_000)),
        (Pace::Real(1), CutAfter::Programs(40)),
        (Pace::Real(1), CutAfter::Flushes(5)),
        (Pace::Real(1), CutAfter::Nanoseconds(20_000_000)),
    ] {
        let folder = Folder::new();
        let device = spec("emmc-5.1-64gb", 4 << 20, &[]);
        let server = start(&options(&folder, core(device, Some(cut_after)), pace));
        let mut host = Host::new(Fault::None, 3);
        let mut client = Client::connect(socket(&server)).expect("an answer");
        let mut flushes = 0;
        let mut requests = 0;
        while host.send(&mut client).is_some() {
            requests += 1;
            assert!(requests < 100_000, "{cut_after:?} never came");
            while host.sent.len() >= 4 {
                let is_flush =
                    host.sent.values().filter(|sent| matches!(sent, Sent::Flush { .. })).count();
                if host.take_reply(&mut client).is_none() {
                    break;
                }
                let left =
                    host.sent.values().filter(|sent| matches!(sent, Sent::Flush { .. })).count();
                flushes += is_flush - left;
            }
        }
        while host.take_reply(&mut client).is_some() {}
        let status = server.status();
        assert!(!status.is_on && status.cuts == 1, "{cut_after:?}");
        let outage = status.outage.expect("it has no power");
        match cut_after {
            CutAfter::Nanoseconds(at_ns) => assert_eq!(outage.at_ns, at_ns, "{pace:?}"),
            CutAfter::Programs(_) | CutAfter::Erases(_) => {
                assert!(outage.torn_operations > 0, "{cut_after:?}");
            }
            CutAfter::Flushes(count) => assert!(flushes <= count as usize, "{flushes}"),
        }
        server.restore().expect("it can be built anew");
        let mut client = Client::connect(socket(&server)).expect("an answer");
        host.check(&mut client).unwrap_or_else(|error| panic!("{pace:?} {cut_after:?}: {error}"));
    }
}
