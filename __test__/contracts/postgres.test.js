import { open, tables } from "../postgres/open.js";
import { contract } from "./suite.js";

contract("postgres", {
  make: (options, namespace) => open({ ...tables(namespace), ...options }),
});
