/** Any database whose driver counts the rows that a statement changed; here another PostgreSQL. */
export interface Database {
  query(
    text: string,
    values: unknown[],
  ): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>;
}

/** This holder has been replaced: the row has seen a larger token. Nothing was written. */
export class Fenced extends Error {}

/** An account that only the present holder of its lease can change. */
export class FencedAccount {
  readonly #database: Database;
  readonly #id: string;
  readonly #fencingToken: string;

  constructor(database: Database, id: string, fencingToken: string) {
    this.#database = database;
    this.#id = id;
    this.#fencingToken = fencingToken;
  }

  /**
   * Shows the token, then reads. After this an earlier holder of the lease cannot write any more, so
   * the value that was read cannot change.
   */
  async open(): Promise<bigint> {
    const { rows } = await this.#database.query(
      `update account set fencing_token = $2
       where id = $1 and fencing_token <= $2
       returning balance`,
      [this.#id, this.#fencingToken],
    );
    const [row] = rows;
    if (row === undefined) throw new Fenced();
    return BigInt(String(row['balance']));
  }

  /** Compares and writes in one statement. */
  async write(balance: bigint): Promise<void> {
    const { rowCount } = await this.#database.query(
      `update account set balance = $2, fencing_token = $3
       where id = $1 and fencing_token <= $3`,
      [this.#id, balance, this.#fencingToken],
    );
    if (rowCount === 0) throw new Fenced();
  }
}
