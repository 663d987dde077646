//! How sure a weighted count is.

/// Share of the cases in which the true number lies in the interval.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// Standard deviations to either side that hold that share.
const DEVIATIONS: f64 = 1.959_964;

/// A weighted count and what is needed to say how sure it is. Rows were kept independently, each with probability
/// `1/w`, so the number of clicks is estimated by Σw, and the variance of that by Σw(w−1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Rows.
    pub(crate) rows: u64,
    /// Σw
    pub(crate) weight: f64,
    /// Σw(w−1)
    pub(crate) variance: f64,
}

impl Estimate {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            weight: self.weight + other.weight,
            variance: self.variance + other.variance,
        }
    }

    /// The count.
    pub(crate) fn clicks(self) -> u64 {
        self.weight.round().max(0.0) as u64
    }

    /// The interval around it. Never below the rows that are there; without sampling, the count itself.
    pub(crate) fn interval(self) -> (u64, u64) {
        let clicks = self.clicks();
        let spread = DEVIATIONS * self.variance.max(0.0).sqrt();
        if spread == 0.0 {
            return (clicks, clicks);
        }
        let low = (self.weight - spread).floor().max(self.rows as f64) as u64;
        (low.min(clicks), (self.weight + spread).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_sampled_is_exact() {
        let exact = Estimate { rows: 7, weight: 7.0, variance: 0.0 };
        assert_eq!((exact.clicks(), exact.interval()), (7, (7, 7)));
    }

    #[test]
    fn a_sample_is_sure_within_its_interval() {
        // 100 rows kept at a quarter: 400 clicks, variance 100 · 4 · 3
        let sampled = Estimate { rows: 100, weight: 400.0, variance: 1_200.0 };
        assert_eq!((sampled.clicks(), sampled.interval()), (400, (332, 468)));
        let few = Estimate { rows: 2, weight: 8.0, variance: 24.0 };
        assert_eq!(few.interval().0, 2, "what is there is there");
        let both = sampled.plus(few);
        assert_eq!((both.rows, both.clicks()), (102, 408));
    }
}
