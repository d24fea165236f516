// Prints the packages of this system that the tests need, for its package manager.
import { packageNames } from "./servers/programs.mjs";

console.log(packageNames(process.platform === "darwin" ? "brew" : "debian").join(" "));
