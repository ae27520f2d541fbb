//! Submission queues of a drive in a study: keys of a device as axes, down to the latencies of processes.

use crate::support::{Folder, HEAD};
use study::StudyResults;

/// One process writes with a depth of 32, another reads one block after the other. The drive executes four commands.
const STUDY: &str = "repeats = 1\n[workload]\nkind = \"jobs\"\n\
    [host]\nboard = \"odroid-xu\"\nkernel = \"6.1\"\ndevice = \"nvme-ssd\"\nfree_bytes = 16777216\n\
    [[job]]\nname = \"writer\"\nprocesses = 1\nrw = \"randwrite\"\nbs = \"4k\"\nrequests = 1000\n\
    iodepth = 32\nmode = \"direct\"\n\
    [[job]]\nname = \"reader\"\nprocesses = 1\nrw = \"randread\"\nbs = \"4k\"\nrequests = 100\n\
    mode = \"direct\"\n\
    [axes]\n\"device.cache.bytes\" = [0]\n\"device.flash.blocks\" = [64]\n\
    \"device.flash.capacity_bytes\" = [4294967296]\n\"device.host.executes\" = [4]\n";

/// The only value of a metric in the rows with this scheduler and these queues.
fn value(results: &StudyResults, queues: &str, scheduler: &str, metric: &str) -> String {
    let has = |axes: &[String], value: &str| axes.iter().any(|cell| cell == value);
    let rows = results.rows.iter().filter(|row| {
        row.metric.name == metric && has(row.axes, scheduler) && has(row.axes, queues)
    });
    let values: Vec<String> = rows.map(|row| row.metric.value.to_string()).collect();
    assert_eq!(values.len(), 1, "{queues} {scheduler} {metric}: {values:?}");
    values[0].clone()
}

#[test]
fn a_reader_with_a_queue_of_its_own_does_not_wait_for_a_deep_writer() {
    let folder = Folder::new("nvme-queues");
    let axes = "\"device.host.submission_queues\" = [1, 2]\nscheduler = [\"none\", \"noop\"]\n";
    let results = folder.run(&format!("{HEAD}{STUDY}{axes}")).expect("a study");
    let latency = |queues, scheduler| value(&results, queues, scheduler, "read_latency_mean_ns");
    let none = |queues| -> f64 { latency(queues, "none").parse().expect("a number") };
    let (one, two) = (none("1"), none("2"));
    // In one queue a read waits for eight writes in each of four places, and for one at most in its own.
    assert!(one > 3.0 * two, "{one} ns, {two} ns with a queue of its own");
    assert_eq!(latency("1", "noop"), latency("2", "noop"), "noop sees one queue");
}

#[test]
fn keys_that_do_not_fit_are_refused_before_anything_runs() {
    let folder = Folder::new("nvme-keys");
    let error = |axes: &str| {
        let text = format!("{HEAD}{STUDY}scheduler = [\"none\"]\n{axes}");
        folder.load(&text).err().map(|error| error.to_string()).expect(axes)
    };
    let message = error("\"device.host.weight_high\" = [4]\n");
    assert!(message.contains("host.weight_high needs host.arbitration"), "{message}");
    let message = error("\"device.host.submission_queues\" = [0]\n");
    assert!(message.contains("host.submission_queues must be 1 to 1024"), "{message}");
}
