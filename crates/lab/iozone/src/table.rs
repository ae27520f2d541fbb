//! All tests, by number.

use crate::contract::Test;

/// All tests that can be run, by number.
pub const TESTS: &[Test] = &[
    Test { number: 0, columns: &["write", "rewrite"], makes_file: true },
    Test { number: 1, columns: &["read", "reread"], makes_file: false },
    Test { number: 2, columns: &["random-read", "random-write"], makes_file: false },
    Test { number: 3, columns: &["bkwd-read"], makes_file: false },
    Test { number: 4, columns: &["record-rewrite"], makes_file: false },
    Test { number: 5, columns: &["stride-read"], makes_file: false },
    Test { number: 6, columns: &["fwrite", "frewrite"], makes_file: true },
    Test { number: 7, columns: &["fread", "freread"], makes_file: false },
];

/// The test of a number.
pub fn find_test(number: u32) -> Option<&'static Test> {
    TESTS.iter().find(|test| test.number == number)
}
