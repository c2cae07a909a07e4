/** Replaces Prisma's client in the published package: only its template tag is needed. */
export { default as sqltag, empty, join } from 'sql-template-tag';
