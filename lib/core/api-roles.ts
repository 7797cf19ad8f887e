/** The roles of the callers of the HTTP protocol. Each may do over HTTP what the construct's grant of that name allows. */
export const API_ROLES = ['read', 'submit', 'operate'] as const;
export type ApiRole = (typeof API_ROLES)[number];
