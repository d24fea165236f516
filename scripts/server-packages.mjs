// Prints the system packages that the tests need, as arguments for the package manager.
import { packageNames } from "./servers/programs.mjs";

console.log(packageNames(process.platform === "darwin" ? "brew" : "debian").join(" "));
