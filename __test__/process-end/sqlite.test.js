import { testFolder } from "../sqlite/folder.js";
import { processEnd } from "./suite.js";

const path = testFolder().file();
const module = new URL("../sqlite/open.js", import.meta.url).href;

processEnd("sqlite", { module, options: () => ({ path }) });
