import { defineConfig } from 'prisma/config';

/** Where Prisma's own tools find the schema and the migrations. */
export default defineConfig({
  schema: 'prisma/schema',
  migrations: { path: 'prisma/migrations' },
});
