// The entry point syncguard/testing: the contract of a backend as tests, for people who write one.

export { testBackend } from "./testing/suite.js";
