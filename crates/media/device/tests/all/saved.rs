//! Devices that are kept in a file while they have no power.

use crate::power::{BACKGROUND, CACHE, Host, SLC_BYPASS, SLC_FOLD, SLC_PARTS, host, storm};
use device::{BlockDevice, LoadError, SavedPart, SavedVersion, StoredDevice};
use random::Stream;

/// A part that borrows nothing.
fn owned(part: &SavedPart<'_>) -> SavedPart<'static> {
    let keep = |version: SavedVersion<'_>| SavedVersion {
        number: version.number,
        content: match version.content {
            device::SavedContent::Zeros => device::SavedContent::Zeros,
            device::SavedContent::Gone => device::SavedContent::Gone,
            device::SavedContent::Bytes(bytes) => {
                device::SavedContent::Bytes(Box::leak(bytes.to_vec().into_boxed_slice()))
            }
        },
    };
    match part {
        SavedPart::Die(die) => SavedPart::Die(die.clone()),
        SavedPart::Page(page) => SavedPart::Page(device::SavedPage {
            die: page.die,
            lpn: page.lpn,
            newest: keep(page.newest),
            before: page.before.map(keep),
        }),
    }
}

fn parts(device: &impl StoredDevice) -> Vec<SavedPart<'static>> {
    let mut parts = Vec::new();
    let saved = device.save(&mut |part| {
        parts.push(owned(part));
        Ok(())
    });
    saved.expect("kept in memory");
    parts
}

/// The same host on a new device that holds what its own one holds.
fn moved(old: &Host, ftl: &str, dies: &str, changes: &[(&str, &str)], at_ns: u64) -> Host {
    let mut new = host(ftl, dies, changes);
    new.device.begin_without_power(at_ns);
    for part in parts(&old.device) {
        new.device.load(part).expect("of the same device");
    }
    assert_eq!(parts(&new.device), parts(&old.device), "{ftl}: saved again");
    new.written = old.written.clone();
    (new.last_number, new.now_ns) = (old.last_number, old.now_ns);
    new
}

const SHAPES: &[(&str, &[(&str, &str)])] =
    &[("1", &[]), ("2", &[CACHE, BACKGROUND]), ("2", SLC_BYPASS), ("1", SLC_FOLD)];

/// A device whose supply was away, and one that was made anew from what it held, go on alike: also where the
/// supply failed in the middle of operations.
#[test]
fn a_device_goes_on_as_if_its_supply_had_been_away() {
    for entry in ftl::FTLS {
        let mut shapes = SHAPES.to_vec();
        if entry.maps_parts {
            shapes.push(("2", SLC_PARTS));
        }
        for (seed, (dies, changes)) in (3..).zip(shapes) {
            let mut old = host(entry.name, dies, changes);
            storm(&mut old, seed, 15).expect("nothing is lost");
            let mut draw = Stream::new(seed, "before the device is saved");
            for _ in 0..draw.below(60) {
                old.step(&mut draw).expect("as permitted");
            }
            let at_ns = old.now_ns + u64::from(draw.below(2_000_000));
            old.device.cut_power(at_ns).expect("cut");
            old.now_ns = at_ns + 1_000_000;
            let mut new = moved(&old, entry.name, dies, changes, at_ns);
            for host in [&mut old, &mut new] {
                host.device.restore_power(host.now_ns, None).expect("built anew");
                host.check_all(at_ns).expect("as permitted");
            }
            let name = entry.name;
            assert_eq!(
                old.device.medium_digest(),
                new.device.medium_digest(),
                "{name} {changes:?}"
            );
            let mut draws = [draw.clone(), draw];
            for (host, draw) in [&mut old, &mut new].into_iter().zip(&mut draws) {
                for _ in 0..200 {
                    host.step(draw).expect("as permitted");
                }
            }
            assert_eq!(old.now_ns, new.now_ns, "{name} {changes:?}: another time");
            assert_eq!(
                old.device.medium_digest(),
                new.device.medium_digest(),
                "{name} {changes:?}"
            );
        }
    }
}

/// Whatever the host wrote is there after a supply that was taken away in order, flushed or not.
#[test]
fn a_supply_that_is_taken_away_in_order_takes_nothing() {
    for entry in ftl::FTLS {
        for (seed, (dies, changes)) in (5..).zip(SHAPES) {
            let mut old = host(entry.name, dies, changes);
            let mut draw = Stream::new(seed, "before the supply is taken away");
            for _ in 0..300 {
                old.step(&mut draw).expect("as permitted");
            }
            let at_ns = old.device.shut_down(old.now_ns).expect("in order");
            assert!(at_ns >= old.now_ns);
            let outage = old.device.outage().expect("without power");
            assert!(outage.torn.is_empty() && outage.lost_cached_sectors == 0, "{outage:?}");
            let mut new = moved(&old, entry.name, dies, changes, at_ns);
            new.device.restore_power(at_ns, None).expect("built anew");
            let sectors: Vec<u64> = new.written.keys().copied().collect();
            for sector in sectors {
                // A discard is not on the medium: it may be undone.
                let last = new.written[&sector].last().map_or(0, |write| write.number);
                let found = new.found(sector).expect("held");
                assert!(last == 0 || found == last, "{} {changes:?}: sector {sector}", entry.name);
            }
        }
    }
}

#[test]
fn parts_of_another_device_are_refused() {
    let mut old = host("page", "2", SLC_BYPASS);
    storm(&mut old, 1, 3).expect("nothing is lost");
    old.device.shut_down(old.now_ns).expect("in order");
    let parts = parts(&old.device);
    let refused = |new: &mut Host, part: &SavedPart<'static>| {
        new.device.load(part.clone()).expect_err("another device").to_string()
    };
    let begin = |dies: &str, changes| {
        let mut new = host("page", dies, changes);
        new.device.begin_without_power(0);
        new
    };
    let is_of = |die: u32| move |part: &&SavedPart<'_>| matches!(part, SavedPart::Die(saved) if saved.die == die);
    let (first, second) =
        (parts.iter().find(is_of(0)).expect("saved"), parts.iter().find(is_of(1)).expect("saved"));
    let told = refused(&mut begin("1", SLC_BYPASS), second);
    assert_eq!(told, "die 1: parts of this die do not fit the device");
    let told = refused(&mut begin("2", &[CACHE]), first);
    assert_eq!(told, "die 0: blocks of an SLC cache do not fit the device");
    let more = [SLC_BYPASS, &[("flash.blocks", "200")]].concat();
    let told = refused(&mut begin("2", &more), first);
    assert_eq!(told, "die 0: versions of pages do not fit the device");
    let page = parts.iter().find(|part| matches!(part, SavedPart::Page(_))).expect("written");
    let mut new = begin("2", SLC_BYPASS);
    new.device.load(page.clone()).expect("the first one");
    let told = new.device.load(page.clone()).expect_err("the second one");
    assert!(matches!(told, LoadError::Part { what: "two versions of a page", .. }), "{told}");
    assert!(new.device.sectors() > 0);
}

/// Where bytes are kept changes nothing: neither what the host reads, nor the medium, nor what is saved.
#[test]
fn bytes_in_a_file_are_those_in_memory() {
    let changes = &[CACHE, BACKGROUND];
    let run = |in_file: bool| {
        let mut host = host("page", "2", changes);
        if in_file {
            host.device.keep_bytes_in(&std::env::temp_dir()).expect("a file");
        }
        storm(&mut host, 9, 20).expect("nothing is lost");
        host.device.shut_down(host.now_ns).expect("in order");
        (host.device.medium_digest(), parts(&host.device))
    };
    assert_eq!(run(true), run(false));
}
