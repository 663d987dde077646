//! Small closed vocabularies of a click: class, source, device, method.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A word that is not one of a vocabulary's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not one of {known}")]
pub struct UnknownWord {
    /// What was given.
    pub word: String,
    /// The words known, separated by commas.
    pub known: &'static str,
}

macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word of this vocabulary, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }

        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err(UnknownWord { word: word.to_owned(), known: concat!($($word, ", "),+).trim_end_matches(", ") }),
                }
            }
        }
    };
}
pub(crate) use vocabulary;

vocabulary! {
    /// What sort of client made a request. A report's `clicks` are those of `Human`.
    Class {
        /// A person.
        Human = "human",
        /// A link preview of a chat app or social network.
        Preview = "preview",
        /// A browser fetching ahead of a click that may never come.
        Prefetch = "prefetch",
        /// A `HEAD` or other check by a client with no better name.
        Probe = "probe",
        /// A security scanner.
        Scanner = "scanner",
        /// A search engine or other crawler.
        Crawler = "crawler",
        /// A fetcher that feeds a language model.
        Ai = "ai",
        /// An uptime monitor.
        Monitor = "monitor",
        /// A feed reader.
        Feed = "feed",
        /// An HTTP library or command-line tool.
        Library = "library",
        /// An automated browser.
        Headless = "headless",
        /// Nothing that says what it is.
        Unknown = "unknown",
    }
}

vocabulary! {
    /// Where a click's row came from.
    Source {
        /// The redirect's own event.
        Origin = "origin",
        /// An edge log line that says the edge answered.
        Edge = "edge",
        /// An edge log line of a request that reached the origin but whose event is missing.
        Recovered = "recovered",
        /// An event made elsewhere.
        Import = "import",
    }
}

vocabulary! {
    /// The sort of device, by its user agent.
    Device {
        /// A desktop or laptop.
        Desktop = "desktop",
        /// A phone.
        Mobile = "mobile",
        /// A tablet.
        Tablet = "tablet",
        /// A television or set-top box.
        Tv = "tv",
        /// A games console.
        Console = "console",
        /// A machine that is no person's device.
        Bot = "bot",
        /// The agent doesn't say.
        Unknown = "unknown",
    }
}

vocabulary! {
    /// The request methods that a redirect answers.
    Method {
        /// `GET`
        Get = "GET",
        /// `HEAD`: never a person's click.
        Head = "HEAD",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_there_and_back() {
        for class in Class::ALL {
            assert_eq!(class.as_str().parse::<Class>().unwrap(), *class);
            assert_eq!(serde_json::to_string(class).unwrap(), format!("{:?}", class.as_str()));
        }
        assert!("person".parse::<Class>().is_err());
    }
}
