//! An error as text for people: what the shell prints and the tests compare.

use std::fmt::Write;

use datafusion::sql::sqlparser::tokenizer::Span;

use crate::error::LoadError;
use crate::secrets::{is_secret_key, redact};

/// Renders `error` about `sql`: code and primary line, the line of text at fault with a caret, detail, hint.
pub fn render(error: &LoadError, sql: &str) -> String {
    let mut out = format!("ERROR {}: {}", error.code(), error.message());
    if let Some(excerpt) = error.span().and_then(|span| excerpt(sql, span)) {
        let _ = write!(out, "\n{excerpt}");
    }
    if let Some(detail) = error.detail_text() {
        let _ = write!(out, "\nDETAIL: {detail}");
    }
    if let Some(hint) = error.hint_text() {
        let _ = write!(out, "\nHINT: {hint}");
    }
    out
}

/// The line of `span` under a `LINE n:` head, with carets below the text at fault.
fn excerpt(sql: &str, span: Span) -> Option<String> {
    let number = usize::try_from(span.start.line).ok()?;
    let line = sql.lines().nth(number.checked_sub(1)?)?;
    if holds_secret(line) {
        return None;
    }
    let start = usize::try_from(span.start.column).ok()?.saturating_sub(1);
    let width = line.chars().count();
    let end = match span.end.line == span.start.line {
        true => usize::try_from(span.end.column).ok()?.saturating_sub(1),
        false => width,
    };
    let carets = end.clamp(start + 1, width.max(start + 1)) - start;
    let head = format!("LINE {number}: ");
    // Tabs are kept before the caret, so that it stands below its text however wide the terminal shows them.
    let lead: String = line
        .chars()
        .take(start)
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let blank = " ".repeat(head.chars().count());
    Some(format!("{head}{line}\n{blank}{lead}{}", "^".repeat(carets)))
}

/// Whether a line of a statement must not be repeated: it has a signed URL, or a string that is the key of a secret.
fn holds_secret(line: &str) -> bool {
    redact(line) != line || line.split('\'').skip(1).step_by(2).any(is_secret_key)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Location;

    use super::*;
    use crate::sqlstate::SqlState;

    #[test]
    fn all_parts_are_rendered_in_order() {
        let sql = "UPSERT INTO customers\n  USING s\n  KEYS (customer_id)";
        let error = LoadError::new(SqlState::CardinalityViolation, "several source rows have the same key")
            .detail("Key (customer_id)=(17) occurs 2 times in the source.")
            .hint("Add SEQUENCE BY or DEDUPLICATE BY to keep one row per key.")
            .at(Span::new(Location::new(3, 3), Location::new(3, 21)));
        assert_eq!(
            render(&error, sql),
            "ERROR 21000: several source rows have the same key\n\
             LINE 3:   KEYS (customer_id)\n          ^^^^^^^^^^^^^^^^^^\n\
             DETAIL: Key (customer_id)=(17) occurs 2 times in the source.\n\
             HINT: Add SEQUENCE BY or DEDUPLICATE BY to keep one row per key."
        );
    }

    #[test]
    fn a_line_with_credentials_is_not_repeated() {
        let at = Span::new(Location::new(1, 1), Location::new(1, 2));
        for sql in [
            "CREATE EXTERNAL TABLE t OPTIONS ('aws_secret_access_key' 'SECRETKEY')",
            "CREATE TABLE t LOCATION 'abfss://c@a/t?sig=SECRETKEY'",
        ] {
            let error = LoadError::new(SqlState::Syntax, "no").at(at);
            assert_eq!(render(&error, sql), "ERROR 42601: no");
        }
        let plain = LoadError::new(SqlState::Syntax, "no").at(at);
        assert!(render(&plain, "SELECT token FROM t WHERE kind = 'x'").contains("LINE 1"));
    }

    #[test]
    fn a_span_outside_the_text_is_left_out() {
        let error =
            LoadError::new(SqlState::Syntax, "expected KEYS").at(Span::new(Location::new(9, 9), Location::new(9, 9)));
        assert_eq!(render(&error, "x"), "ERROR 42601: expected KEYS");
    }
}
