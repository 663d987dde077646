//! The sort of device that an agent is of. Asked once per distinct agent.

use schemas::Device;

/// Televisions, set-top boxes and sticks. Fire TV's models begin with AFT.
const TELEVISIONS: [&str; 30] = [
    "SmartTV",
    "SMART-TV",
    "Smart-TV",
    "Smart TV",
    "HbbTV",
    "AppleTV",
    "Apple TV",
    "GoogleTV",
    "Google TV",
    "Android TV",
    "AndroidTV",
    "BRAVIA",
    "Roku",
    "CrKey",
    "; AFT",
    "NetCast",
    "Web0S",
    "WebOS.TV",
    "webOS.TV",
    "VIDAA",
    "Viera",
    "VIERA",
    "CE-HTML",
    "PhilipsTV",
    "NETTV",
    "InettvBrowser",
    "SetTopBox",
    "Opera TV",
    "MiTV",
    "OWB/",
];
/// Games consoles.
const CONSOLES: [&str; 8] =
    ["PlayStation", "PLAYSTATION", "Nintendo", "Xbox", "XBOX", "Dreamcast", "Playstation", "Ouya"];
/// Tablets that say so, or whose model does. `Tablet PC` is a part of Windows.
const TABLETS: [&str; 22] = [
    "iPad",
    "PlayBook",
    "TouchPad",
    "hp-tablet",
    "Kindle",
    "Nexus 7",
    "Nexus 9",
    "Nexus 10",
    "SM-T",
    "GT-P",
    "SM-X",
    "Pixel C",
    "Pixel Tablet",
    "Lenovo TB",
    "MediaPad",
    "MatePad",
    "KFTT",
    "KFOT",
    "KFJW",
    "Xoom",
    "Transformer",
    "Tablet;",
];
/// Phones that say so in other words than `Mobile`.
const PHONES: [&str; 26] = [
    "iPhone",
    "iPod",
    "Windows Phone",
    "IEMobile",
    "BlackBerry",
    "BB10",
    "Opera Mini",
    "Opera Mobi",
    "MIDP",
    "CLDC",
    "Symbian",
    "SymbOS",
    "Series60",
    "Series40",
    "UCWEB",
    "Nokia",
    "KaiOS",
    "KAIOS",
    "webOS/",
    "Maemo",
    "Windows CE",
    "UP.Browser",
    "DoCoMo",
    "SonyEricsson",
    "J2ME",
    "FBAN/FB4A",
];
/// Systems of desktops and laptops.
const DESKTOPS: [&str; 14] = [
    "Windows",
    "Win64",
    "Win98",
    "Win95",
    "WinNT",
    "Macintosh",
    "Mac OS X",
    "Mac_PowerPC",
    "X11",
    "Linux",
    "CrOS",
    "FreeBSD",
    "OpenBSD",
    "SunOS",
];

/// The sort of device; a machine's is `bot`.
pub(super) fn of(agent: &str, machine: bool) -> Device {
    let any = |marks: &[&str]| marks.iter().any(|mark| agent.contains(mark));
    let mobile = agent.contains("Mobile");
    if machine {
        Device::Bot
    } else if any(&TELEVISIONS) || (agent.contains("Tizen") && agent.contains("TV")) {
        Device::Tv
    } else if any(&CONSOLES) {
        Device::Console
    } else if any(&TABLETS) && !agent.contains("Windows Phone") {
        Device::Tablet
    } else if any(&PHONES) {
        Device::Mobile
    } else if agent.contains("Macintosh") && agent.contains("Mobile/") {
        // an iPad that asks for desktop sites gives itself away in apps
        Device::Tablet
    } else if agent.contains("Android") && !any(&["Windows NT", "CrOS"]) {
        // Google's own rule: tablets leave the word out
        if mobile { Device::Mobile } else { Device::Tablet }
    } else if mobile && !agent.contains("Windows NT") {
        Device::Mobile
    } else if any(&DESKTOPS) {
        Device::Desktop
    } else {
        Device::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sort_of_device_by_its_agent() {
        use Device::{Bot, Console, Desktop, Mobile, Tablet, Tv, Unknown};
        for (agent, device) in [
            ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36", Desktop),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.4 Safari/605.1.15",
                Desktop,
            ),
            ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36", Desktop),
            ("Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.0; Trident/4.0; SLCC1; Tablet PC 2.0)", Desktop),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", Desktop),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) Version/18.1 Mobile/15E148 Safari/604.1", Mobile),
            (
                "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/130.0.0.0 Mobile Safari/537.36",
                Mobile,
            ),
            ("Mozilla/5.0 (Android 14; Mobile; rv:130.0) Gecko/130.0 Firefox/130.0", Mobile),
            ("[FBAN/FB4A;FBAV/600.0.0.1;FBDV/SM-S1]", Mobile),
            ("Mozilla/5.0 (Mobile; Nokia 8110; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5", Mobile),
            ("Opera/9.80 (J2ME/MIDP; Opera Mini/7.1; U; en) Presto/2.8 Version/11.10", Mobile),
            ("Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) Mobile Safari/537.36", Mobile),
            ("Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X) Version/17.0 Mobile/15E148 Safari/604.1", Tablet),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1.15 Mobile/15E148 Instagram 300.0",
                Tablet,
            ),
            ("Mozilla/5.0 (Linux; Android 13; SM-X910) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36", Tablet),
            ("Mozilla/5.0 (Android 13; Tablet; rv:130.0) Gecko/130.0 Firefox/130.0", Tablet),
            ("Mozilla/5.0 (Linux; Android 9; SM-T720) AppleWebKit/537.36 Chrome/101.0.0.0 Safari/537.36", Tablet),
            ("Mozilla/5.0 (SMART-TV; Linux; Tizen 7.0) AppleWebKit/537.36 Version/7.0 TV Safari/537.36", Tv),
            (
                "Mozilla/5.0 (Linux; Android 9; AFTMM Build/PS7) AppleWebKit/537.36 Chrome/100.0 Mobile Safari/537.36",
                Tv,
            ),
            ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 Chrome/108.0 Safari/537.36", Tv),
            (
                "Mozilla/5.0 (PlayStation; PlayStation 5/6.00) AppleWebKit/605.1.15 Version/15.4 Safari/605.1.15",
                Console,
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox Series X) AppleWebKit/537.36 Edge/44.18363",
                Console,
            ),
            ("Mozilla/5.0", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(of(agent, false), device, "{agent}");
            assert_eq!(of(agent, true), Bot);
        }
    }
}
