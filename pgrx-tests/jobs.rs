//! Fenced jobs, as one session sees them.

use super::harness::{Database, column, refused, rows, value};

#[test]
fn a_new_key_is_claimed_with_token_1() {
    let database = Database::new();
    let mut session = database.connect_as("app_be");
    let answer = rows(
        &mut session,
        "select kind, fencing_token, current_step, payload from public.job_claim('mail', 'k', 'w', now() + '1 min', '{\"a\": 1}', null)",
    );
    assert_eq!(answer, [["mail", "1", "∅", "{\"a\": 1}"]]);
}
