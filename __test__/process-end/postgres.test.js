import { tables } from "../postgres/open.js";
import { processEnd } from "./suite.js";

const names = tables();
const module = new URL("../postgres/open.js", import.meta.url).href;

processEnd("postgres", { module, options: () => names });
