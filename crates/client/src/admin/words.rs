//! Enumerations of messages, with the words that people see.

/// Defines an enum for an enumeration of messages. A value that is not in the enumeration becomes
/// `Unknown`.
macro_rules! words {
    (
        $(#[$about:meta])*
        $name:ident($message:ty) {
            $($(#[$variant_about:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$variant_about])* $variant,)+
            /// A value of another version of the server.
            Unknown,
        }

        impl $name {
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Unknown => "unknown",
                }
            }
        }

        impl From<$message> for $name {
            fn from(message: $message) -> Self {
                match message {
                    $(<$message>::$variant => Self::$variant,)+
                    <$message>::Unspecified => Self::Unknown,
                }
            }
        }

        impl From<$name> for $message {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => Self::$variant,)+
                    $name::Unknown => Self::Unspecified,
                }
            }
        }
    };
}

pub(super) use words;
