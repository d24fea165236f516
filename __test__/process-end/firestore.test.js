import { collections } from "../firestore/open.js";
import { processEnd } from "./suite.js";

const names = collections();
const module = new URL("../firestore/open.js", import.meta.url).href;
const emulatorHost = process.env.FIRESTORE_EMULATOR_HOST;

processEnd("firestore", { module, options: () => ({ emulatorHost, ...names }) });
