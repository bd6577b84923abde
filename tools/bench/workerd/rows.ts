/** The rows of objects without logic. */

/** A table for each kind of row, and one statement for each write. */
export class FloorRows {
  readonly #sql: SqlStorage;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
    this.#sql.exec('CREATE TABLE IF NOT EXISTS reading (sequence INTEGER PRIMARY KEY, text TEXT NOT NULL)');
    this.#sql.exec(
      'CREATE TABLE IF NOT EXISTS command (id TEXT PRIMARY KEY, text TEXT NOT NULL, answer TEXT)',
    );
  }

  addReading(text: string): void {
    this.#sql.exec('INSERT INTO reading (text) VALUES (?)', text);
  }

  addCommand(id: string, text: string): void {
    this.#sql.exec('INSERT INTO command (id, text) VALUES (?, ?)', id, text);
  }

  endCommand(id: string, answer: string): void {
    this.#sql.exec('UPDATE command SET answer = ? WHERE id = ?', answer, id);
  }
}
