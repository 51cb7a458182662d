/** Runs work in one transaction of a client of its own: all of it is committed, or nothing. */
export async function transaction(pool, work) {
  const client = await pool.connect();
  let lost;
  const onError = (error) => (lost = error);
  // Without a listener, a connection that is lost between two statements would end the process.
  client.on('error', onError);
  try {
    await client.query('BEGIN');
    const result = await work(client);
    const { command } = await client.query('COMMIT');
    // PostgreSQL answers ROLLBACK to the COMMIT of a transaction in which a statement failed and nobody rethrew it.
    if (command !== 'COMMIT') throw new Error('the transaction was rolled back');
    return result;
  } catch (error) {
    await client.query('ROLLBACK').catch(onError);
    throw error;
  } finally {
    client.off('error', onError);
    // The pool closes a client that is given back with an error.
    client.release(lost);
  }
}

/** An error as a reason to store: never empty, and without the one character that PostgreSQL cannot hold. */
export const reasonOf = (error) => String(error).replaceAll('\0', '') || 'unknown';
