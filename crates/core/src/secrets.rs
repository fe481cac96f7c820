//! Taking credentials out of text that people or logs will see.

/// Words whose value must not be shown, compared in lower case.
const SECRET_WORDS: &[&str] = &[
    "secret",
    "token",
    "password",
    "passwd",
    "sig",
    "signature",
    "credential",
    "access_key",
    "account_key",
    "sas",
    "private_key",
    "authorization",
];

/// Whether the value of an option or property of this name is a secret.
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_lowercase();
    let last = key.rsplit(['.', '-', '_']).next().unwrap_or(&key);
    SECRET_WORDS.iter().any(|word| match word.len() {
        0..=3 => last == *word,
        _ => key.contains(word),
    })
}

/// `text` with the query strings and user parts of URLs, and the values of secret-looking `key=value` pairs, replaced by `***`.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(&redact_word(word));
    }
    out
}

fn redact_word(word: &str) -> String {
    let mut word = match (word.find("://"), word.find('?')) {
        (Some(scheme), Some(query)) if scheme < query => format!("{}?***", &word[..query]),
        _ => word.to_owned(),
    };
    if let Some(scheme) = word.find("://") {
        let host = scheme + 3;
        let end = word[host..].find('/').map_or(word.len(), |i| host + i);
        // `abfss://container@account` names no secret; `user:password@host` does.
        if let Some(at) = word[host..end]
            .find('@')
            .filter(|at| word[host..host + at].contains(':'))
        {
            word.replace_range(host..host + at, "***");
        }
    }
    match word.find(['=', ':']) {
        Some(cut)
            if is_secret_key(word[..cut].trim_matches(|c: char| !c.is_alphanumeric())) && cut + 1 < word.len() =>
        {
            format!("{}***", &word[..=cut])
        }
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_urls_and_secrets_are_hidden() {
        let text =
            "GET https://a.blob/x/y.json?sv=1&sig=SECRETSIG failed, aws_secret_access_key=SECRETKEY s3://u:PW@h/p";
        let shown = redact(text);
        assert!(
            !shown.contains("SECRETSIG") && !shown.contains("SECRETKEY") && !shown.contains("PW"),
            "{shown}"
        );
        assert!(shown.contains("https://a.blob/x/y.json"));
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "column \"sign\" of table a.b = 3: no such thing";
        assert_eq!(redact(text), text);
        assert!(
            !is_secret_key("design") && is_secret_key("azure_storage_sas") && is_secret_key("AWS_SECRET_ACCESS_KEY")
        );
    }
}
