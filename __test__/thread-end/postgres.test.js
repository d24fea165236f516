import { beforeAll } from "vitest";
import { setupSchema } from "../../js/postgres.js";
import { tables } from "../postgres/open.js";
import { threadEnd } from "./suite.js";

const names = tables();
beforeAll(() => setupSchema(process.env.POSTGRES_URL, names));
threadEnd("postgres", () => ({
  url: process.env.POSTGRES_URL,
  options: { ...names, poolSize: 5 },
}));
