/** A payload that a JSON Schema accepts, as far as its types tell. */

type Schema = Readonly<Record<string, unknown>>;

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null;

export function sampleOf(schema: unknown): unknown {
  if (!isSchema(schema)) return undefined;
  if (Array.isArray(schema.examples)) return schema.examples[0];
  if ('default' in schema) return schema.default;
  if ('const' in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const variants = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(variants)) return sampleOf(variants[0]);
  switch (schema.type) {
    case 'object': {
      const required = new Set(Array.isArray(schema.required) ? schema.required : []);
      const properties = isSchema(schema.properties) ? Object.entries(schema.properties) : [];
      return Object.fromEntries(
        properties.filter(([name]) => required.has(name)).map(([name, each]) => [name, sampleOf(each)]),
      );
    }
    case 'array':
      return typeof schema.minItems === 'number'
        ? Array.from({ length: schema.minItems }, () => sampleOf(schema.items))
        : [];
    case 'string':
      return 'sample'.padEnd(typeof schema.minLength === 'number' ? schema.minLength : 0, '-');
    case 'integer':
    case 'number':
      return typeof schema.minimum === 'number' ? schema.minimum : 1;
    case 'boolean':
      return true;
    default:
      return null;
  }
}
