//! The recorder's settings as the spool repeats them: `key=value;…;dir=…`.

/// Settings by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings(Vec<(String, String)>);

/// Its value is the rest of the text as it stands, no escapes: a path may hold any character.
const LAST_KEY: &str = "dir";

impl Settings {
    pub(crate) fn parse(text: &str) -> Settings {
        let mut settings = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((LAST_KEY, directory)) = rest.split_once('=') {
                settings.push((LAST_KEY.to_owned(), directory.to_owned()));
                break;
            }
            let (field, after) = rest.split_once(';').unwrap_or((rest, ""));
            if let Some((key, value)) = field.split_once('=') {
                settings.push((key.to_owned(), decode(value)));
            }
            rest = after;
        }
        Settings(settings)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Undoes the two escapes a value needs, `%3B` and `%25`; anything else stays as it is.
fn decode(value: &str) -> String {
    let mut decoded = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        decoded.push_str(before);
        let (character, length) = match escape.get(..3) {
            Some("%3B" | "%3b") => (';', 3),
            Some("%25") => ('%', 3),
            _ => ('%', 1),
        };
        decoded.push(character);
        rest = &escape[length..];
    }
    decoded.push_str(rest);
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_rest_of_the_text() {
        let settings = Settings::parse("c=20;py=;name=a%3Bb%25c;dir=/tmp/a;b=c%25");
        assert_eq!(settings.get("c"), Some("20"));
        assert_eq!(settings.get("py"), Some(""));
        assert_eq!(settings.get("name"), Some("a;b%c"));
        assert_eq!(settings.get("dir"), Some("/tmp/a;b=c%25"));
        assert_eq!(settings.get("b"), None);
    }

    #[test]
    fn broken_texts_give_what_is_whole() {
        let settings = Settings::parse(";;=;c;d=%;e=%3;f=%3é;dir=");
        assert_eq!(settings.get("c"), None);
        assert_eq!(settings.get("d"), Some("%"));
        assert_eq!(settings.get("e"), Some("%3"));
        assert_eq!(settings.get("f"), Some("%3é"));
        assert_eq!(settings.get("dir"), Some(""));
    }
}
