//! Lives of small devices with gaps against full runs to the end.

use super::super::tests::both;
use super::{DeviceStack, at_rate};
use crate::life::stack::Stack;
use device::{Command, DeviceSpec, FlashDevice};
use device_replay::TimedCommand;
use random::Stream;

/// Two dies behind one channel; `keys` are added at the end.
fn spec(ftl: &str, settings: &str, keys: &str) -> DeviceSpec {
    let text = format!(
        "name = \"small\"\nsummary = \"two small dies\"\n\
         [host]\nbytes_per_second = 200000000\ncommand_overhead_ns = 60000\nqueue_depth = 2\nexecutes = 1\n\
         [flash]\npart = \"k9f2g08u0c\"\nblocks = 80\nchannels = 1\ndies_per_channel = 2\n\
         capacity_bytes = {}\ncopy_back = true\nftl = \"{ftl}\"\n\
         [flash.settings]\n{settings}\n\
         [cache]\nbytes = 65536\n\
         [cleaning]\nbackground = true\nidle_before_ns = 10000000\nfree_target_blocks = 2\nsuspend = \"page\"\n{keys}",
        2 * 32 * 16 * 2048
    );
    DeviceSpec::parse("small", &text).expect("a device")
}

/// Writes of a page each, nine of ten in a tenth of the device, one a millisecond.
fn skewed(count: u64) -> Vec<TimedCommand> {
    let (pages, mut draw) = (2 * 32 * 16, Stream::new(7, "skewed writes"));
    let hot = pages / 10;
    (0..count)
        .map(|number| {
            let page =
                if draw.below(10) < 9 { draw.below(hot) } else { hot + draw.below(pages - hot) };
            let command = Command::write(u64::from(page) * 4, 4);
            TimedCommand { arrival_ns: number * 1_000_000, command }
        })
        .collect()
}

fn small(spec: &DeviceSpec) -> FlashDevice {
    let mut part = nand::find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.pages_per_block = 16;
    FlashDevice::new(spec, &part, 1).expect("a device")
}

#[test]
fn a_device_with_gaps_ends_where_a_full_run_does() {
    let slc = "[slc]\nblocks_per_die = 4\nfold_idle_ns = 100000000\nread_ns = 20000\nprogram_ns = 150000\n\
               erase_ns = 2000000\n";
    let cases = [
        ("page", "wear_leveling = \"none\"", ""),
        ("page", "wear_leveling = \"static\"\nwear_threshold = 100", ""),
        ("page", "wear_leveling = \"dynamic\"", slc),
        ("fast", "wear_leveling = \"static\"\nwear_threshold = 100", ""),
    ];
    let commands: &'static [TimedCommand] = Box::leak(skewed(500).into_boxed_slice());
    let (mut wrong, mut uneven) = (Vec::new(), 0);
    for (ftl, settings, keys) in cases {
        let spec = spec(ftl, settings, keys);
        let make = || -> Box<dyn Stack> {
            Box::new(DeviceStack::on(small(&spec), &spec, commands, true).expect("filled"))
        };
        let pair = both(make, 1500);
        eprintln!("{ftl} {settings} {keys:.5}: {}", pair.figures());
        wrong.extend(pair.check(&format!("{ftl} {settings}")));
        uneven += u32::from(!pair.is_even());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The check refuses a wrong answer: even wear is no answer for some of these.
    assert!(uneven > 0, "all wore evenly");
}

#[test]
fn a_rate_stretches_the_times_of_a_trace() {
    let mut commands = skewed(4);
    // Four pages of 2 KiB a day.
    at_rate(&mut commands, 8192, 8192.0);
    assert_eq!(commands[3].arrival_ns, 86_400_000_000_000);
    assert_eq!(commands[0].arrival_ns, 0);
    for one in &mut commands {
        one.arrival_ns = 0;
    }
    at_rate(&mut commands, 8192, 8192.0);
    assert_eq!(commands[1].arrival_ns, 43_200_000_000_000);
}
