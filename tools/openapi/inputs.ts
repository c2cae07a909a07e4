/** JSON Schemas of inputs, from the zod schemas that check them. */
import { z } from 'zod';
import { itemSchemas } from '@leasehold/api/openapi';
import type { Schema } from './type-schemas.ts';

/**
 * What a caller may send. Zod checks more than a JSON Schema can express, such as that two fields are not
 * given together: whatever the schema refuses is refused, but not all that it accepts is accepted.
 */
export function inputSchemaOf(schema: z.ZodType): Schema {
  const described = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override({ zodSchema, jsonSchema }) {
      const item = itemSchemas.get(zodSchema);
      if (item !== undefined) Object.assign(jsonSchema, inputSchemaOf(item));
      // The expression that zod finds dates with has no place in a description.
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
      // Whole numbers of JavaScript, as zod writes those without a bound.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  delete described.$schema;
  return described;
}
