import { randomBytes } from "node:crypto";
import { threadEnd } from "./suite.js";

const keyPrefix = `t_${randomBytes(6).toString("hex")}`;
threadEnd("redis", () => ({ url: process.env.REDIS_URL, options: { keyPrefix } }));
