/** Takes the types out of TypeScript, as Node.js does. */
const { stripTypeScriptTypes } = require('node:module');

module.exports = { process: (source) => ({ code: stripTypeScriptTypes(source) }) };
