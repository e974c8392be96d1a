export * from "skillgym";
