import { reasonOf, transaction } from './database.js';

/** The job was claimed by somebody else after its lease had ended: stop, and write nothing. */
export class LeaseLost extends Error {}

/**
 * Does one job, unless it is done or somebody is at it: answers 'done', 'failed', 'lost' or 'refused'.
 *
 * `handle(job, step)` does the work. `step(name, write)` commits what `write(tx)` writes together with the name of the
 * step, so that a worker that takes over finds in `job.current_step` how far the one before it came.
 */
export async function runJob(pool, { kind, key, worker, payload, leaseSeconds = 60, now = new Date() }, handle) {
  const leaseEnd = new Date(now.getTime() + leaseSeconds * 1000);
  const claim = await pool.query('SELECT * FROM public.job_claim($1, $2, $3, $4, $5, $6)', [
    kind, key, worker, leaseEnd, JSON.stringify(payload), now,
  ]);
  const job = claim.rows[0];
  if (!job) return 'refused';

  const step = (name, write) =>
    transaction(pool, async (tx) => {
      // The fence first: it also locks the job's row, so that nobody can claim it until these writes are committed.
      held(await tx.query('SELECT * FROM public.job_advance($1, $2, $3, $4)', [job.id, job.fencing_token, name, null]));
      await write?.(tx);
    });

  try {
    await handle(job, step);
    held(await pool.query('SELECT * FROM public.job_complete($1, $2, $3)', [job.id, job.fencing_token, null]));
    return 'done';
  } catch (error) {
    if (error instanceof LeaseLost) return 'lost';
    const failed = await pool.query('SELECT * FROM public.job_fail($1, $2, $3, $4)', [
      job.id, job.fencing_token, reasonOf(error), null,
    ]);
    return failed.rowCount === 1 ? 'failed' : 'lost';
  }
}

/** No row from a guarded write means that the fencing token is no longer the job's. */
function held({ rowCount }) {
  if (rowCount === 0) throw new LeaseLost();
}
