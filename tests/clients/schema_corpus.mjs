// 300 JSON schemas as generators write them: zod's are zod's own (z.toJSONSchema), pydantic's and OpenAPI's are composed here of the forms that those
// write. [{ name, schema }], always the same ones.
import { z } from 'zod';

const all = [];
const add = (name, schema) => all.push({ name, schema });

// --- zod ---

const Tree = z.object({ value: z.string(), get children() { return z.array(Tree); } });
const List = z.object({ head: z.int(), get tail() { return z.union([List, z.null()]); } });
const Category = z.object({ name: z.string(), get parent() { return Category.optional(); } });
const leaves = {
  string: z.string(), 'string of a length': z.string().min(2).max(12), 'at least one': z.string().min(1), 'at most 5': z.string().max(5), 'five letters': z.string().length(5),
  email: z.email(), uuid: z.uuid(), url: z.url(), datetime: z.iso.datetime(), date: z.iso.date(), time: z.iso.time(), duration: z.iso.duration(), ipv4: z.ipv4(), ipv6: z.ipv6(),
  base64: z.base64(), nanoid: z.nanoid(), cuid: z.cuid(), ulid: z.ulid(), 'begins with': z.string().startsWith('ab'), 'ends with': z.string().endsWith('yz'), includes: z.string().includes('mid'),
  digits: z.string().regex(/^\d{3}-\d{4}$/), words: z.string().regex(/^\w+\s\w+$/), slug: z.string().regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/), colour: z.string().regex(/^#[0-9a-fA-F]{6}$/), phone: z.e164(),
  number: z.number(), int: z.int(), 'int in a range': z.int().min(1).max(5), positive: z.int().positive(), 'not negative': z.int().nonnegative(), int32: z.int32(), 'number in a range': z.number().min(0).max(1), float32: z.float32(),
  boolean: z.boolean(), null: z.null(), literal: z.literal('yes'), 'number literal': z.literal(42), literals: z.literal(['a', 'b', 3]), enum: z.enum(['red', 'green', 'blue']), 'enum with quotes': z.enum(['a "b"', 'c\\d', 'é\n']),
  any: z.any(), unknown: z.unknown(), nullable: z.string().nullable(), union: z.union([z.string(), z.int()]), 'default': z.string().default('x'), describe: z.string().describe('what it is'),
  array: z.array(z.string()), 'array of a length': z.array(z.int()).min(1).max(3), 'one or more': z.array(z.boolean()).nonempty(), tuple: z.tuple([z.string(), z.int()]), 'tuple and rest': z.tuple([z.string()], z.int()),
  record: z.record(z.string(), z.int()), 'record of enum': z.record(z.enum(['a', 'b']), z.boolean()), object: z.object({ a: z.string(), b: z.int().optional() }), strict: z.strictObject({ a: z.string() }), loose: z.looseObject({ a: z.string() }),
  empty: z.object({}), 'catch all': z.object({ a: z.int() }).catchall(z.string()), tree: Tree, list: List, category: Category,
  discriminated: z.discriminatedUnion('kind', [z.object({ kind: z.literal('circle'), r: z.number() }), z.object({ kind: z.literal('square'), side: z.number() })]),
  intersection: z.intersection(z.object({ a: z.string() }), z.object({ b: z.int() })), extended: z.object({ a: z.string() }).extend({ b: z.boolean() }), partial: z.object({ a: z.string(), b: z.int() }).partial(), picked: z.object({ a: z.string(), b: z.int() }).pick({ a: true }),
};
for (const [name, leaf] of Object.entries(leaves)) {
  add(`zod ${name}`, z.toJSONSchema(z.object({ v: leaf })));
  add(`zod list of ${name}`, z.toJSONSchema(z.object({ items: z.array(leaf).max(2), note: z.string().nullable() })));
}

// --- pydantic ---

const field = (title, more) => ({ title, ...more });
const optional = (schema, title) => ({ anyOf: [schema, { type: 'null' }], default: null, title });
const kinds = {
  str: { type: 'string' }, int: { type: 'integer' }, float: { type: 'number' }, bool: { type: 'boolean' }, datetime: { type: 'string', format: 'date-time' }, date: { type: 'string', format: 'date' },
  time: { type: 'string', format: 'time' }, timedelta: { type: 'string', format: 'duration' }, uuid: { type: 'string', format: 'uuid' }, 'EmailStr': { type: 'string', format: 'email' },
  HttpUrl: { type: 'string', format: 'uri', minLength: 1, maxLength: 2083 }, IPv4Address: { type: 'string', format: 'ipv4' }, constr: { type: 'string', minLength: 3, maxLength: 8 }, pattern: { type: 'string', pattern: '^[A-Z]{2}\\d{4}$' },
  unanchored: { type: 'string', pattern: '\\d+' }, conint: { type: 'integer', minimum: 0, maximum: 150 }, gt: { type: 'integer', exclusiveMinimum: 0 }, ge: { type: 'number', minimum: 0 }, multiple: { type: 'integer', multipleOf: 5 },
  Literal: { const: 'a', type: 'string' }, Literals: { enum: ['a', 'b'], type: 'string' }, IntEnum: { enum: [1, 2, 3], type: 'integer' }, list: { items: { type: 'string' }, type: 'array' }, conlist: { items: { type: 'integer' }, maxItems: 3, minItems: 1, type: 'array' },
  set: { items: { type: 'string' }, type: 'array', uniqueItems: true }, dict: { additionalProperties: { type: 'integer' }, type: 'object' }, Any: {}, tuple: { maxItems: 2, minItems: 2, prefixItems: [{ type: 'integer' }, { type: 'string' }], type: 'array' },
  bytes: { type: 'string', format: 'binary' }, Decimal: { anyOf: [{ type: 'number' }, { type: 'string' }] }, SecretStr: { type: 'string', format: 'password', writeOnly: true },
};
for (const [name, kind] of Object.entries(kinds)) {
  add(`pydantic ${name}`, { properties: { value: field('Value', kind), n: field('N', { type: 'integer' }) }, required: ['value', 'n'], title: 'Model', type: 'object' });
  add(`pydantic optional ${name}`, { properties: { value: optional(kind, 'Value') }, title: 'Model', type: 'object' });
  add(`pydantic list of ${name}`, { $defs: { Item: { properties: { v: field('V', kind) }, required: ['v'], title: 'Item', type: 'object' } }, properties: { items: { items: { $ref: '#/$defs/Item' }, maxItems: 2, title: 'Items', type: 'array' } }, required: ['items'], title: 'Model', type: 'object' });
}
const animal = (kind, more, required = ['kind']) => ({ properties: { kind: { const: kind, title: 'Kind', type: 'string', default: kind }, ...more }, required, title: kind, type: 'object' });
const pets = { Cat: animal('cat', { lives: { type: 'integer', title: 'Lives' } }), Dog: animal('dog', { good: { type: 'boolean', title: 'Good' } }) };
const union = { discriminator: { mapping: { cat: '#/$defs/Cat', dog: '#/$defs/Dog' }, propertyName: 'kind' }, oneOf: [{ $ref: '#/$defs/Cat' }, { $ref: '#/$defs/Dog' }] };
add('pydantic discriminated', { $defs: pets, properties: { pet: { ...union, title: 'Pet' } }, required: ['pet'], title: 'Home', type: 'object' });
add('pydantic discriminated by default', { $defs: { Cat: animal('cat', {}, []), Dog: animal('dog', {}, []) }, properties: { pet: union }, required: ['pet'], title: 'Home', type: 'object' });
add('pydantic discriminated list', { $defs: pets, properties: { pets: { items: union, maxItems: 2, type: 'array' } }, required: ['pets'], title: 'Home', type: 'object' });
add('pydantic discriminated optional', { $defs: pets, properties: { pet: { anyOf: [union, { type: 'null' }], default: null } }, title: 'Home', type: 'object' });
add('pydantic node', { $defs: { Node: { properties: { v: { type: 'integer', title: 'V' }, next: { anyOf: [{ $ref: '#/$defs/Node' }, { type: 'null' }], default: null } }, required: ['v'], title: 'Node', type: 'object' } }, $ref: '#/$defs/Node' });
add('pydantic tree', { $defs: { Node: { properties: { v: { type: 'string', title: 'V' }, children: { items: { $ref: '#/$defs/Node' }, title: 'Children', type: 'array', default: [] } }, required: ['v'], title: 'Node', type: 'object' } }, allOf: [{ $ref: '#/$defs/Node' }] });
add('pydantic 1 reference', { title: 'Model', type: 'object', properties: { who: { title: 'Who', allOf: [{ $ref: '#/definitions/User' }] } }, required: ['who'], definitions: { User: { title: 'User', type: 'object', properties: { name: { title: 'Name', type: 'string' } }, required: ['name'] } } });
add('pydantic 1 enum', { title: 'Model', type: 'object', properties: { c: { allOf: [{ $ref: '#/definitions/Colour' }], default: 'red' } }, definitions: { Colour: { title: 'Colour', description: 'An enumeration.', enum: ['red', 'green'], type: 'string' } } });
add('pydantic extra forbidden', { additionalProperties: false, properties: { a: { type: 'string', title: 'A' } }, required: ['a'], title: 'M', type: 'object' });
add('pydantic root list', { items: { type: 'integer' }, title: 'Numbers', type: 'array', maxItems: 4 });
add('pydantic json value', { properties: { data: { title: 'Data', type: 'object', additionalProperties: true } }, required: ['data'], title: 'M', type: 'object' });
add('pydantic deep', { $defs: { C: { properties: { d: { type: 'boolean' } }, required: ['d'], type: 'object' }, B: { properties: { c: { $ref: '#/$defs/C', description: 'deeper' } }, required: ['c'], type: 'object' } }, properties: { b: { $ref: '#/$defs/B' } }, required: ['b'], type: 'object' });

// --- OpenAPI ---

const types = {
  string: { type: 'string', example: 'x' }, int32: { type: 'integer', format: 'int32' }, int64: { type: 'integer', format: 'int64', minimum: 1 }, float: { type: 'number', format: 'float' }, double: { type: 'number', format: 'double' }, boolean: { type: 'boolean', default: false },
  byte: { type: 'string', format: 'byte' }, date: { type: 'string', format: 'date' }, 'date-time': { type: 'string', format: 'date-time' }, email: { type: 'string', format: 'email', maxLength: 254 }, uri: { type: 'string', format: 'uri' }, hostname: { type: 'string', format: 'hostname' },
  ipv6: { type: 'string', format: 'ipv6' }, uuid: { type: 'string', format: 'uuid', readOnly: true }, password: { type: 'string', format: 'password' }, enum: { type: 'string', enum: ['placed', 'approved', 'delivered'] }, nullable: { type: 'string', nullable: true },
  'type list': { type: ['string', 'null'] }, 'type list with a format': { type: ['string', 'null'], format: 'date' }, map: { type: 'object', additionalProperties: { type: 'string' } }, 'free map': { type: 'object', additionalProperties: true }, array: { type: 'array', items: { type: 'integer', format: 'int32' }, maxItems: 3 },
  'unique array': { type: 'array', items: { type: 'string' }, uniqueItems: false }, pattern: { type: 'string', pattern: '^\\w{1,8}$' }, currency: { type: 'string', minLength: 3, maxLength: 3, pattern: '^[A-Z]{3}$' }, deprecated: { type: 'integer', deprecated: true }, extension: { type: 'string', 'x-go-name': 'Name' },
  'one of types': { oneOf: [{ type: 'string' }, { type: 'integer' }] }, 'one of enums': { oneOf: [{ type: 'string', enum: ['a'] }, { type: 'string', enum: ['b', 'c'] }] }, 'one of overlapping': { oneOf: [{ type: 'string' }, { type: 'string', minLength: 2 }] }, 'any of': { anyOf: [{ type: 'boolean' }, { type: 'number' }] },
  not: { not: { type: 'null' } }, 'min properties': { type: 'object', additionalProperties: { type: 'integer' }, minProperties: 1 },
};
for (const [name, type] of Object.entries(types)) {
  add(`openapi ${name}`, { type: 'object', required: ['id', 'v'], properties: { id: { type: 'integer', format: 'int64' }, v: type } });
  add(`openapi optional ${name}`, { type: 'object', properties: { v: type }, additionalProperties: false });
}
const base = { Base: { type: 'object', required: ['id'], properties: { id: { type: 'integer', format: 'int32' } } }, Named: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } };
const composed = (parts, more = {}) => ({ type: 'object', properties: { v: { allOf: parts, ...more } }, required: ['v'], $defs: base });
add('openapi all of: base and more', composed([{ $ref: '#/$defs/Base' }, { type: 'object', properties: { tag: { type: 'string' } } }]));
add('openapi all of: two references', composed([{ $ref: '#/$defs/Base' }, { $ref: '#/$defs/Named' }], { description: 'both' }));
add('openapi all of: a reference and siblings', composed([{ $ref: '#/$defs/Base' }], { type: 'object', properties: { extra: { type: 'boolean' } }, required: ['extra'] }));
add('openapi all of: nested', { type: 'object', properties: { v: { allOf: [{ allOf: [{ $ref: '#/$defs/Base' }] }, { $ref: '#/$defs/Named' }] } }, required: ['v'], $defs: base });
add('openapi all of: conflict', composed([{ $ref: '#/$defs/Base' }, { type: 'object', properties: { id: { type: 'string' } } }]));
add('openapi all of: closed', composed([{ $ref: '#/$defs/Base' }, { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }]));
add('openapi inheritance', { $ref: '#/$defs/Manager', $defs: { Employee: { type: 'object', required: ['kind'], properties: { kind: { type: 'string' }, reports: { type: 'array', maxItems: 1, items: { $ref: '#/$defs/Employee' } } } }, Manager: { allOf: [{ $ref: '#/$defs/Employee' }, { type: 'object', properties: { level: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['level'] }] } } });
add('openapi discriminator', { oneOf: [{ $ref: '#/$defs/A' }, { $ref: '#/$defs/B' }], discriminator: { propertyName: 'type' }, $defs: { A: { type: 'object', required: ['type', 'a'], properties: { type: { type: 'string', enum: ['a'] }, a: { type: 'integer' } } }, B: { type: 'object', required: ['type'], properties: { type: { type: 'string', enum: ['b', 'bb'] } } } } });
add('openapi overlapping objects', { oneOf: [{ type: 'object', properties: { a: { type: 'integer' } } }, { type: 'object', properties: { b: { type: 'integer' } } }] });
add('openapi pet', { type: 'object', required: ['name', 'photoUrls'], properties: { id: { type: 'integer', format: 'int64' }, category: { type: 'object', properties: { id: { type: 'integer' }, name: { type: 'string' } } }, name: { type: 'string', example: 'doggie' }, photoUrls: { type: 'array', maxItems: 2, items: { type: 'string', format: 'uri' } }, status: { type: 'string', enum: ['available', 'pending', 'sold'] } } });

export const corpus = all;
