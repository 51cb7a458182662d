/** The row of a call that always answers one; where it did not after all, the transaction is rolled back. */
export async function one<Row>(rows: Promise<Row[]>): Promise<Row> {
  const [row] = await rows;
  if (row === undefined) throw new Error('a call answered no row');
  return row;
}
