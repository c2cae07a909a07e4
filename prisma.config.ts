import { defineConfig } from 'prisma/config';

/** Where Prisma's generator finds the schema. Migrations are applied by `leasehold migrate`. */
export default defineConfig({ schema: 'prisma/schema' });
