// What the generated types need and the catalog does not say. The tests prove each line by calls: test/catalog.test.mts,
// test/functions.test.mts.

/**
 * What may be NULL: arguments (p_…) without a default, the elements of one (p_…[]), and columns. An argument whose default
 * is NULL may be NULL too.
 * Columns of type jsonb are not named: whatever is in them, its type is unknown.
 * @type {Record<string, string[]>}
 */
export const nullable = {
  job_claim: ['p_now', 'current_step'],
  job_claim_many: ['p_now', 'current_step'],
  job_heartbeat: ['p_now'],
  job_advance: ['p_now'],
  job_complete: ['p_now'],
  job_complete_many: ['p_now'],
  job_fail: ['p_reason', 'p_now'],
  job_fail_many: ['p_reasons', 'p_reasons[]', 'p_now'],
  queue_write: ['p_created_at', 'p_correlation_id'],
  queue_write_many: ['p_created_at', 'p_correlation_id'],
  queue_mark_sent: ['p_sent_at'],
  // Where a delivery claimed the row, there is no fingerprint.
  inbox_claim_client: ['request_fingerprint'],
  event_bus_send: ['p_correlation_id'],
  event_bus_dead_letters: ['reason'],
  event_bus_all_dead_letters: ['reason'],
  // Most problems are about a queue; that of pgmq itself is about neither.
  event_bus_check: ['topic', 'queue'],
  event_bus_repair: ['topic'],
  // The age of the oldest, where there is none.
  hfs_lite_health: ['value'],
  hfs_lite_age: ['p_instant', 'hfs_lite_age'],
};

/**
 * Texts of which there are only these.
 * @type {Record<string, Record<string, string[]>>}
 */
export const values = {
  job_complete_many: { verdict: ['done', 'stale', 'unknown'] },
  job_fail_many: { verdict: ['done', 'stale', 'unknown'] },
  event_bus_archive_many: { verdict: ['done', 'stale', 'unknown'] },
  inbox_claim_request: { state: ['claimed', 'replay', 'incomplete'] },
  hfs_lite_grant: { p_as: ['application', 'operator', 'monitor'] },
};
