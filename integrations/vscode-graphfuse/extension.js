// Starts `graphfuse lsp` for files in Triton-C, and again when its command changes.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("graphfuse").get("command");
  client = new LanguageClient(
    "graphfuse",
    "graphfuse",
    { command, args },
    {
      documentSelector: [{ scheme: "file", language: "triton-c" }],
      synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/{.tritonc.json,*.h,*.tc}") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    const help = "Is it installed? pip install 'graphfuse[lsp]', or set graphfuse.command.";
    vscode.window.showErrorMessage(`graphfuse: cannot start ${command}: ${error.message}. ${help}`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running && running.isRunning()) {
    await running.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("graphfuse.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("graphfuse.command")) {
        return restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
