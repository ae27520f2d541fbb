//! Retention at another temperature than the rated one, by the law of Arrhenius.
//!
//! JESD218 states retention for an activation energy of 1.1 eV, and so does this model. Charge leaves
//! the cells faster at a higher temperature: an hour there counts as so many hours at 40 C.

/// Temperature of the retention term of a part, in degrees Celsius (JESD218, client class: power off).
pub const RETENTION_RATED_CELSIUS: f64 = 40.0;

// JESD218: charge that leaves the cells.
const ACTIVATION_ENERGY_EV: f64 = 1.1;

// CODATA, rounded as JEDEC documents print it.
const BOLTZMANN_EV_PER_KELVIN: f64 = 8.617e-5;

const KELVIN_AT_0_CELSIUS: f64 = 273.15;

/// How many times faster data age at `celsius` than at [`RETENTION_RATED_CELSIUS`].
///
/// `exp(Ea/k (1/T_rated - 1/T))`, with Ea = 1.1 eV and temperatures in kelvin (JESD218, JESD22-A117).
pub fn retention_acceleration(celsius: f64) -> f64 {
    let rated = 1.0 / (RETENTION_RATED_CELSIUS + KELVIN_AT_0_CELSIUS);
    let actual = 1.0 / (celsius + KELVIN_AT_0_CELSIUS);
    libm::exp(ACTIVATION_ENERGY_EV / BOLTZMANN_EV_PER_KELVIN * (rated - actual))
}

/// Nanoseconds at the rated temperature that age data as much as `duration_ms` at `celsius`.
///
/// A result beyond the range of the type is its largest value, 584 years.
#[expect(clippy::cast_sign_loss, reason = "a factor of Arrhenius is positive")]
pub fn rated_retention_ns(duration_ms: u64, celsius: f64) -> u64 {
    (duration_ms as f64 * 1e6 * retention_acceleration(celsius)) as u64
}
