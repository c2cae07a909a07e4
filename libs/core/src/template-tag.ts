/** What takes the place of Prisma's client in the published package: its template tag, and no more. */
export { default as sqltag, empty, join } from 'sql-template-tag';
