import { render } from "preact";
import { startKeyboard } from "./app/keyboard";
import { startRouter } from "./app/router";
import { startSession } from "./app/session";
import { App } from "./app/shell";
import { startTheme } from "./app/theme";
import "./style/page.css";
import "./style/access.css";

const place = document.getElementById("app");
if (place) {
  startTheme();
  startRouter();
  startKeyboard();
  void startSession();
  render(<App />, place);
}
