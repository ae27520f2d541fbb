//! What a process measured, and the lines that it prints.

use crate::options::{Access, Options};
use crate::profile::{Printing, Version};
use crate::suffix::{print_bytes, print_count, print_time};
use crate::target::CallError;
use device::DeviceStatistics;
use jobs::Latencies;
use nand::Counters;
use std::fmt::Write as _;

const SECOND_NS: f64 = 1e9;

/// What the medium under a file system had done at a moment, since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediumWork {
    /// Operations of the raw chip.
    pub chip: Counters,
    /// Commands of a block device with a driver of its own.
    pub device: Option<DeviceStatistics>,
}

/// What a process measured. Times are readings of the tool's clock.
#[derive(Clone, Debug)]
pub struct Report {
    /// Number of the process.
    pub pid: u32,
    /// What its requests did.
    pub access: Access,
    /// Bytes of a request.
    pub size_bytes: u64,
    /// All requests that were made, the warm-up among them.
    pub requests: u64,
    /// Requests that were quicker than `-t`, behind the warm-up.
    pub too_fast: u64,
    /// Requests that were slower than `-T`, behind the warm-up.
    pub too_slow: u64,
    /// Latencies of the other requests behind the warm-up: those of the statistics.
    pub valid: Latencies,
    /// Sum of the valid latencies.
    pub sum_ns: u64,
    /// When the clock was read before the first request.
    pub start_ns: u64,
    /// When the clock was read after the last request.
    pub end_ns: u64,
    /// The first error, which ended it.
    pub error: Option<CallError>,
    /// What the medium had done before the first request and after the last one; none of a device, which
    /// counts for all processes.
    pub medium_work: Option<[MediumWork; 2]>,
    /// Sum of the squares of the valid latencies, for the deviation.
    squares: u128,
}

/// What lines say about the target.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Path of the target.
    pub path: &'a str,
    /// Name of its file system; `block` for a device.
    pub file_system: &'a str,
    /// Name of the device.
    pub device: &'a str,
    /// Bytes of the device, or of the file system since 1.2; none if the version does not show them.
    pub bytes: u64,
}

impl Report {
    /// A report of a process that has made no request.
    pub(crate) fn new(pid: u32, access: Access, size_bytes: u64) -> Self {
        Self {
            pid,
            access,
            size_bytes,
            requests: 0,
            too_fast: 0,
            too_slow: 0,
            valid: Latencies::default(),
            sum_ns: 0,
            start_ns: 0,
            end_ns: 0,
            error: None,
            medium_work: None,
            squares: 0,
        }
    }

    /// Counts request `number`, from 1 on.
    pub(crate) fn add_request(&mut self, options: &Options, number: u64, latency_ns: u64) {
        debug_assert_eq!(self.requests + 1, number, "requests are counted one by one");
        self.requests = number;
        // The warm-up is left out before the bounds are looked at: a slow first request is not too slow.
        if number <= options.warm_up {
            return;
        }
        if latency_ns < options.shortest_ns {
            self.too_fast += 1;
        } else if latency_ns > options.longest_ns {
            self.too_slow += 1;
        } else {
            self.valid.record(latency_ns);
            self.sum_ns += latency_ns;
            self.squares += u128::from(latency_ns) * u128::from(latency_ns);
        }
        debug_assert!(self.valid.count() + self.too_fast + self.too_slow <= self.requests);
    }

    /// Adds what another process measured at the same time.
    pub fn add(&mut self, other: &Self) {
        debug_assert_eq!(self.size_bytes, other.size_bytes, "processes of one command line");
        self.requests += other.requests;
        self.too_fast += other.too_fast;
        self.too_slow += other.too_slow;
        self.valid.add(&other.valid);
        self.sum_ns += other.sum_ns;
        self.squares += other.squares;
        // From the first request of any process to the end of the last.
        if let (Some([begin, end]), Some([other_begin, other_end])) =
            (&mut self.medium_work, other.medium_work)
        {
            if other.start_ns < self.start_ns {
                *begin = other_begin;
            }
            if other.end_ns > self.end_ns {
                *end = other_end;
            }
        }
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.error = self.error.or(other.error);
    }

    /// Deviation of the valid latencies, the root of their mean square less the square of their mean (`mdev`);
    /// 0 if there are none.
    pub fn deviation_ns(&self) -> f64 {
        let count = u128::from(self.valid.count());
        let sum = u128::from(self.sum_ns);
        // In integers, so that nothing depends on the order of additions; never below zero, by the inequality
        // of Cauchy and Schwarz.
        debug_assert!(count * self.squares >= sum * sum);
        let spread = count * self.squares - sum * sum;
        (spread as f64).sqrt() / count.max(1) as f64
    }

    /// Valid requests a second of the time that they took: pauses do not count.
    pub fn iops(&self) -> f64 {
        rate(self.valid.count(), self.sum_ns)
    }

    /// Bytes of the valid requests a second of the time that they took.
    pub fn speed_bytes_per_s(&self) -> f64 {
        self.iops() * self.size_bytes as f64
    }

    /// Time from the first request to the end of the last one.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// All requests a second of the elapsed time.
    pub fn load_iops(&self) -> f64 {
        rate(self.requests, self.elapsed_ns())
    }

    /// Bytes of all requests a second of the elapsed time.
    pub fn load_bytes_per_s(&self) -> f64 {
        self.load_iops() * self.size_bytes as f64
    }

    /// The lines that the tool prints when it ends.
    pub fn lines(&self, options: &Options, place: &Place<'_>) -> Vec<String> {
        if options.is_batch {
            return vec![self.batch_line(options)];
        }
        let printing = options.profile.printing;
        let mut lines = vec![format!("--- {} ioping statistics ---", Self::head(options, place))];
        match printing {
            Printing::Milliseconds => lines.push(self.line_in_milliseconds(options)),
            _ if options.profile.version < Version::V1_0 => {
                lines.push(self.line_of_wall_time(options));
            }
            _ => lines.extend(self.lines_of_valid_and_all(options)),
        }
        let times = [self.valid.min_ns(), self.valid.mean_ns() as u64, self.valid.max_ns()];
        let times = [times.as_slice(), &[self.deviation_ns() as u64]].concat();
        lines.push(if printing == Printing::Milliseconds {
            let exact = [
                self.valid.min_ns() as f64,
                self.valid.mean_ns(),
                self.valid.max_ns() as f64,
                self.deviation_ns(),
            ];
            let shown = exact.map(|time_ns| format!("{:.1}", time_ns / 1e6));
            format!("min/avg/max/mdev = {} ms", shown.join("/"))
        } else {
            let clock_ns = options.profile.clock_ns;
            let shown = times.iter().map(|time_ns| print_time(*time_ns, clock_ns, printing));
            format!("min/avg/max/mdev = {}", shown.collect::<Vec<_>>().join(" / "))
        });
        lines
    }

    /// Path, and what is known of the device, as the version shows it.
    fn head(options: &Options, place: &Place<'_>) -> String {
        let Place { path, file_system, device, bytes } = *place;
        let version = options.profile.version;
        if version < Version::V0_6 {
            return path.to_owned();
        }
        // 0.4 and 0.5 show the path alone; they return above.
        // The size stands behind the name since 0.8, and in all cases since 1.2.
        if version >= Version::V1_2 || (version >= Version::V0_8 && bytes > 0) {
            let size = print_bytes(bytes, false, options.profile.printing);
            return format!("{path} ({file_system} {device} {size})");
        }
        format!("{path} ({file_system} {device})")
    }

    /// Until 0.6: wall time in milliseconds; rates since 0.5.
    fn line_in_milliseconds(&self, options: &Options) -> String {
        let done = format!(
            "{} requests completed in {:.1} ms",
            self.requests,
            self.elapsed_ns() as f64 / 1e6
        );
        let speed_mib = self.speed_bytes_per_s() / f64::from(1 << 20);
        // 0.5 has no comma before the speed.
        let comma = if options.profile.version == Version::V0_5 { "" } else { "," };
        match options.profile.version {
            Version::V0_4 => done,
            _ => format!("{done}, {:.0} iops{comma} {speed_mib:.1} mb/s", self.iops()),
        }
    }

    /// 0.7 to 0.9: wall time, and rates of the time that requests took.
    fn line_of_wall_time(&self, options: &Options) -> String {
        let profile = options.profile;
        let printing = profile.printing;
        let is_old = profile.version == Version::V0_7;
        format!(
            "{} requests completed in {}, {} iops, {}/s",
            print_count(self.requests, printing),
            print_time(self.elapsed_ns(), profile.clock_ns, printing),
            print_count(self.iops() as u64, printing),
            print_bytes(self.speed_bytes_per_s() as u64, is_old, printing),
        )
    }

    /// Since 1.0: the valid requests and the time that they took, then all requests and the wall time.
    fn lines_of_valid_and_all(&self, options: &Options) -> [String; 2] {
        let printing = options.profile.printing;
        let count = |number: u64| print_count(number, printing);
        let bytes = |number: u64| print_bytes(number, false, printing);
        let time = |time_ns: u64| print_time(time_ns, options.profile.clock_ns, printing);
        let moved = match self.access {
            Access::Read => " read",
            Access::Write => " written",
            Access::Alternate => "",
        };
        let valid = format!(
            "{} requests completed in {}, {}{moved}, {} iops, {}/s",
            count(self.valid.count()),
            time(self.sum_ns),
            bytes(self.valid.count() * self.size_bytes),
            count(self.iops() as u64),
            bytes(self.speed_bytes_per_s() as u64),
        );
        let mut all = String::new();
        for (left_out, why) in [(self.too_fast, "too fast"), (self.too_slow, "too slow")] {
            if left_out > 0 {
                let _ = write!(all, "{} {why}, ", count(left_out));
            }
        }
        let _ = write!(
            all,
            "generated {} requests in {}, {}, {} iops, {}/s",
            count(self.requests),
            time(self.elapsed_ns()),
            bytes(self.requests * self.size_bytes),
            count(self.load_iops() as u64),
            bytes(self.load_bytes_per_s() as u64),
        );
        [valid, all]
    }

    /// The bare numbers of `-B`: count, time, rates, then least, mean, most and deviation; since 1.0 also all
    /// requests and the wall time. In the unit of the clock.
    fn batch_line(&self, options: &Options) -> String {
        let unit_ns = options.profile.clock_ns as f64;
        let in_units = |time_ns: f64| format!("{:.0}", time_ns / unit_ns);
        let mut numbers = vec![
            self.valid.count().to_string(),
            in_units(self.sum_ns as f64),
            format!("{:.0}", self.iops()),
            format!("{:.0}", self.speed_bytes_per_s()),
            in_units(self.valid.min_ns() as f64),
            in_units(self.valid.mean_ns()),
            in_units(self.valid.max_ns() as f64),
            in_units(self.deviation_ns()),
        ];
        if options.profile.version >= Version::V1_0 {
            numbers.extend([self.requests.to_string(), in_units(self.elapsed_ns() as f64)]);
        }
        numbers.join(" ")
    }
}

/// Events a second; 0 in no time.
fn rate(count: u64, time_ns: u64) -> f64 {
    if time_ns == 0 { 0.0 } else { count as f64 * SECOND_NS / time_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::{Place, Report};
    use crate::options::{Access, Options};
    use crate::{Profile, find_profile};

    const PLACE: Place<'_> = Place { path: "d", file_system: "ext4", device: "/dev/a", bytes: 0 };

    /// A report of these latencies, in microseconds, that took two seconds in all.
    fn report(options: &Options, latencies_us: &[u64]) -> Report {
        let mut report = Report::new(1, options.access, options.size_bytes);
        for (number, latency_us) in (1..).zip(latencies_us) {
            report.add_request(options, number, latency_us * 1_000);
        }
        report.end_ns = 2_000_000_000;
        report
    }

    fn lines(version: &str, text: &str, latencies_us: &[u64]) -> Vec<String> {
        let profile: &'static Profile = find_profile(version).expect("a version");
        let options = Options::parse(text, profile).expect("a command line");
        report(&options, latencies_us).lines(&options, &PLACE)
    }

    #[test]
    fn each_version_prints_its_own_lines() {
        // Mean 300 us, deviation the root of 20,000 = 141.4 us; 4 requests in 1.2 ms are 3,333 a second, and
        // 13,653,333 bytes a second, which is 13.02 MiB.
        let four = [100, 300, 300, 500];
        assert_eq!(
            lines("v0.4", "-c 4 directory", &four),
            [
                "--- d ioping statistics ---",
                "4 requests completed in 2000.0 ms",
                "min/avg/max/mdev = 0.1/0.3/0.5/0.1 ms"
            ]
        );
        assert_eq!(
            lines("v0.5", "-c 4 directory", &four)[1],
            "4 requests completed in 2000.0 ms, 3333 iops 13.0 mb/s"
        );
        assert_eq!(
            lines("v0.6", "-c 4 directory", &four)[..2],
            [
                "--- d (ext4 /dev/a) ioping statistics ---",
                "4 requests completed in 2000.0 ms, 3333 iops, 13.0 mb/s"
            ]
        );
        assert_eq!(
            lines("v0.7", "-c 4 directory", &four)[1..],
            [
                "4 requests completed in 2.0 s, 3.3 k iops, 13.0 mb/s",
                "min/avg/max/mdev = 100 us / 300 us / 500 us / 141 us"
            ]
        );
        assert_eq!(
            lines("v0.9", "-c 4 directory", &four)[1],
            "4 requests completed in 2 s, 3.33 k iops, 13.0 MiB/s"
        );
    }

    #[test]
    fn since_1_0_the_first_request_and_those_out_of_bounds_are_left_out() {
        // The first is warm-up, 50 us too fast, 900 us too slow: 100, 300, 300 and 500 us are left.
        let given = [9_000, 50, 100, 300, 300, 500, 900];
        let text = "-W -t 60us -T 800us -c 7 directory";
        assert_eq!(
            lines("v1.3", text, &given),
            [
                "--- d (ext4 /dev/a 0 B) ioping statistics ---",
                "4 requests completed in 1.20 ms, 16 KiB written, 3.33 k iops, 13.0 MiB/s",
                "1 too fast, 1 too slow, generated 7 requests in 2 s, 28 KiB, 3 iops, 14 KiB/s",
                "min/avg/max/mdev = 100 us / 300 us / 500 us / 141.4 us"
            ]
        );
        let batch = lines("v1.3", &format!("-B {text}"), &given);
        assert_eq!(batch, ["4 1200000 3333 13653333 100000 300000 500000 141421 7 2000000000"]);
        assert_eq!(
            lines("v0.9", "-B -W -c 4 directory", &[100, 300, 300, 500]),
            ["4 1200 3333 13653333 100 300 500 141"]
        );
        assert!(lines("v1.0", "-G -c 2 directory", &[1, 1])[1].contains("4 KiB, 1"));
        assert!(lines("v1.2", "-a 0 -c 2 directory", &[1, 1])[1].starts_with("2 requests"));
    }

    #[test]
    fn reports_of_several_processes_are_one() {
        let profile = find_profile("v0.9").expect("a version");
        let options = Options::parse("-c 4 directory", profile).expect("a command line");
        let mut sum = report(&options, &[100, 300]);
        sum.add(&report(&options, &[300, 500]));
        let all = report(&options, &[100, 300, 300, 500]);
        assert_eq!(sum.lines(&options, &PLACE), all.lines(&options, &PLACE));
        assert_eq!((sum.requests, sum.access), (4, Access::Read));
        // No request at all is no division by zero.
        let none = report(&options, &[]);
        assert_eq!((none.iops(), none.deviation_ns()), (0.0, 0.0));
    }
}
