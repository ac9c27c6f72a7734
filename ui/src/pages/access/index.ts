/** One file for the browser: users, groups, policies, rights, the audit trail. */
export { Audit } from "./audit";
export { Credentials } from "./credentials";
export { Effective } from "./effective";
export { GroupPage } from "./group";
export { Groups } from "./groups";
export { Policies } from "./policies";
export { PolicyPage } from "./policy";
export { UserPage } from "./user";
export { Users } from "./users";
