//! Numbers that every command is divided by: sectors of a page, dies of a device.

/// A number that others are divided by: a shift where it is a power of two, as nearly all are.
///
/// A division takes 26 cycles or more on processors of 2019. A command of two pages had about twenty of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    value: u64,
    /// Its logarithm to base 2; none of another number.
    shift: Option<u32>,
}

impl Divisor {
    /// The divisor `value`, which is not zero.
    pub(crate) fn new(value: u64) -> Self {
        debug_assert!(value > 0, "nothing is divided by zero");
        Self { value, shift: value.is_power_of_two().then_some(value.trailing_zeros()) }
    }

    /// The number itself.
    #[inline]
    pub(crate) fn value(self) -> u64 {
        self.value
    }

    /// How often it goes into `number`, and what is left.
    #[inline]
    pub(crate) fn split(self, number: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (number >> shift, number & (self.value - 1)),
            None => self.divide(number),
        }
    }

    // Not in line: commands have many places that divide, and nearly all of them shift.
    #[cold]
    #[inline(never)]
    fn divide(self, number: u64) -> (u64, u64) {
        (number / self.value, number % self.value)
    }

    /// How often it goes into `number`, rounded down.
    #[inline]
    pub(crate) fn quotient(self, number: u64) -> u64 {
        self.split(number).0
    }

    /// How often it goes into `number`, rounded up.
    #[inline]
    pub(crate) fn quotient_up(self, number: u64) -> u64 {
        self.quotient(number + (self.value - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use crate::tests::panics_with;

    #[test]
    fn a_divisor_divides_as_the_operators_do() {
        for value in (1..70).chain([127, 128, 129, 1 << 40]) {
            let divisor = Divisor::new(value);
            assert_eq!(divisor.value(), value);
            for number in (0..300).chain([1 << 32, (1 << 40) - 1, 1 << 40, (1 << 50) + 3]) {
                let whole = (number / value, number % value);
                assert_eq!(divisor.split(number), whole, "{number} by {value}");
                assert_eq!(divisor.quotient(number), whole.0, "{number} by {value}");
                assert_eq!(divisor.quotient_up(number), number.div_ceil(value));
            }
        }
        panics_with("nothing is divided by zero", || {
            Divisor::new(0);
        });
    }
}
