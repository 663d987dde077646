//! How many clicks a sample stands for, and how sure that is.
//!
//! Every click is kept or not independently of all others, with a probability `1/w` that its row carries as weight `w`.
//! `N` clicks are estimated by Σw over the rows (Horvitz and Thompson 1952), and the variance of that by Σw(w−1). All that
//! is needed is sums over rows, so parts that were counted apart can be added.
//!
//! **Why not ± 1.96 standard deviations.** The rows tell of their own variance: a sample that came out too small says
//! that it is sure, too. Of five rows at 2 % such intervals hold the truth in less than 90 % of the cases, of ten in 92 %. And
//! where nothing was kept they say that there was nothing.
//!
//! **The interval.** Of one rate: the number that was missed beside `k` kept rows is negative binomial, with mean `k(w−1)`,
//! variance `kw(w−1)` and third central moment `kw(w−1)(2w−1)`. Cumulants add up over rates, so a mixture has the sums of
//! each over its rows, Σw(w−1)(2w−1) being 2 Σw(w−1)² + Σw(w−1). What lies between the 2.5 % points of the gamma
//! distribution with these three is the interval; its quantiles by the cube root of Wilson and Hilferty (1931). To be right
//! to second order at both ends it begins from *half a row* more than were kept: the end between the two exact ones, which
//! count none and one (the mid-P interval; for sums of weighted counts Fay and Feuer 1997, Fay and Kim 2017). At the
//! lower end that half row is like those that are there, of weight 1 + Σw(w−1)² / Σw(w−1); at the upper end it has the
//! greatest weight that a click in scope can have had, because one that was thinned most may be among those of which
//! no row tells. A part that has few or no rows of that weight is held more often than promised: up to 97.5 %.
//!
//! **Few rows.** Counts are whole numbers: with few rows the share that holds the truth jumps around 95 % as `N` goes on.
//! So that it stays above 94 % the ends move apart, by half a row each at the most, to the exact ones: while Σ(1−1/w),
//! the rows as far as they are in doubt, is below 7; not at all from 25 on.
//!
//! What is there is there: the lower end is never below the number of rows. Rows that were kept for certain (`w` = 1) add
//! nothing to any of the sums but the first two.

/// Share of the cases in which the true number lies in the interval.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// Standard deviations to either side that hold that share of a normal distribution.
const DEVIATIONS: f64 = 1.959_964;
/// Up to so many rows in doubt the ends are the exact ones …
const FEW: f64 = 7.0;
/// … and from so many on those half-way between them.
const MANY: f64 = 25.0;

/// A weighted count and what is needed to say how sure it is: sums over rows of weight `w`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Rows.
    pub(crate) rows: u64,
    /// Σw
    pub(crate) weight: f64,
    /// Σw(w−1)
    pub(crate) variance: f64,
    /// Σw(w−1)²
    pub(crate) skew: f64,
    /// Σ(1−1/w)
    pub(crate) doubt: f64,
}

impl Estimate {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            weight: self.weight + other.weight,
            variance: self.variance + other.variance,
            skew: self.skew + other.skew,
            doubt: self.doubt + other.doubt,
        }
    }

    /// What is left of it without a part of it.
    pub(crate) fn minus(self, part: Self) -> Self {
        // what is left over of sums in another order is nothing
        let left = |whole: f64, part: f64| if whole - part > whole * 1e-9 { whole - part } else { 0.0 };
        Self {
            rows: self.rows.saturating_sub(part.rows),
            weight: left(self.weight, part.weight),
            variance: left(self.variance, part.variance),
            skew: left(self.skew, part.skew),
            doubt: left(self.doubt, part.doubt),
        }
    }

    /// The count.
    pub(crate) fn clicks(self) -> u64 {
        self.weight.round().max(0.0) as u64
    }

    /// The interval around it. `heaviest`: the greatest weight that a click in scope can have, kept or not; 1 when nothing
    /// was sampled, and then the interval is the count itself.
    pub(crate) fn interval(self, heaviest: f64) -> (u64, u64) {
        let clicks = self.clicks();
        let unseen = (heaviest - 1.0).max(0.0);
        if unseen == 0.0 && self.variance <= 0.0 {
            return (clicks, clicks);
        }
        let like_these = if self.variance > 0.0 { self.skew / self.variance } else { unseen };
        let caution = 0.5 * ((MANY - self.doubt) / (MANY - FEW)).clamp(0.0, 1.0);
        let low = self.and_missed(0.5 - caution, like_these).quantile(-DEVIATIONS).ceil();
        let high = self.and_missed(0.5, unseen).and_missed(caution, like_these).quantile(DEVIATIONS).floor();
        let low = low.max(self.rows as f64) as u64;
        (low.min(clicks), (high as u64).max(clicks))
    }

    /// With what was missed beside so many rows more, of weight `excess` + 1.
    fn and_missed(self, rows: f64, excess: f64) -> Self {
        let variance = rows * excess * (excess + 1.0);
        Self {
            weight: self.weight + rows * excess,
            variance: self.variance + variance,
            skew: self.skew + variance * excess,
            ..self
        }
    }

    /// The point so many standard deviations of a normal distribution from the middle, of a gamma distribution with this
    /// mean, variance and third moment.
    fn quantile(self, deviations: f64) -> f64 {
        if self.variance <= 0.0 {
            return self.weight;
        }
        let spread = self.variance.sqrt();
        let skewness = (2.0 * self.skew + self.variance) / (self.variance * spread);
        let root = 1.0 + skewness * deviations / 6.0 - skewness * skewness / 36.0;
        self.weight + spread * 2.0 / skewness * (root.max(0.0).powi(3) - 1.0)
    }
}

#[cfg(test)]
mod tests;
