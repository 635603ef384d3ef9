//! A run as CSV.
use punctual_record::Quantity;
/// The name of a quantity as it stands in the record.
#[must_use]
pub fn quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Overshoot => "overshoot",
        Quantity::Lateness => "lateness",
        Quantity::OneWay => "one_way",
        Quantity::RoundTrip => "round_trip",
        Quantity::CallCost => "call_cost",
        Quantity::Away => "away",
        Quantity::Loop => "loop",
    }
}
