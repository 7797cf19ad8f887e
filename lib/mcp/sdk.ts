/** The parts of the MCP SDK that the command needs. `npm run build` bundles them into this file, so that an installation has no package for them. */
export { McpServer } from '@modelcontextprotocol/server';
export { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
