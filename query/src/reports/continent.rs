//! Continents of countries (ISO 3166 alpha-2), as the two letters that geography databases use.

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, lit, when};
use datafusion::scalar::ScalarValue;

const CONTINENTS: &[(&str, &str)] = &[
    (
        "AF",
        "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU MW MZ NA NE \
         NG RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW",
    ),
    ("AN", "AQ BV GS HM TF"),
    (
        "AS",
        "AE AF AM AZ BD BH BN BT CC CN CX CY GE HK ID IL IN IO IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY NP \
         OM PH PK PS QA SA SG SY TH TJ TL TM TR TW UZ VN YE",
    ),
    (
        "EU",
        "AD AL AT AX BA BE BG BY CH CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE LI LT LU LV MC MD ME MK MT \
         NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK",
    ),
    (
        "NA",
        "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS MX NI PA PM PR SV SX TC TT \
         US VC VG VI",
    ),
    ("OC", "AS AU CK FJ FM GU KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS"),
    ("SA", "AR BO BR CL CO EC FK GF GY PE PY SR UY VE"),
];

/// The countries of a continent; none of what is no continent.
pub(crate) fn countries(continent: &str) -> impl Iterator<Item = &'static str> {
    let known = CONTINENTS.iter().find(|(name, _)| *name == continent);
    known.into_iter().flat_map(|(_, countries)| countries.split_whitespace())
}

/// The continent of the country in `country`; null for a country that is on none.
pub(crate) fn of(country: Expr) -> Result<Expr> {
    let on = |name: &str| country.clone().in_list(countries(name).map(lit).collect(), false);
    let mut cases = when(on("AF"), lit("AF"));
    for (name, _) in &CONTINENTS[1..] {
        cases = cases.when(on(name), lit(*name));
    }
    cases.otherwise(lit(ScalarValue::Utf8(None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_country_is_on_one_continent() {
        let all: Vec<&str> = CONTINENTS.iter().flat_map(|(name, _)| countries(name)).collect();
        assert!(all.iter().all(|country| country.len() == 2));
        assert_eq!(all.len(), all.iter().collect::<HashSet<_>>().len());
        assert_eq!(all.len(), 250, "the 249 of ISO 3166 and Kosovo");
        assert_eq!(countries("Europe").count(), 0);
    }
}
