// An error boundary: a failing part of the page shows its error with a retry button, and the other
// parts continue.

import { Component, type ComponentChildren } from "preact";

import { Line } from "../text/shown-text.tsx";

interface PanelProps {
  readonly name: string;
  readonly children: ComponentChildren;
}

export class Panel extends Component<PanelProps, { readonly error: string | undefined }> {
  override state = { error: undefined };

  static override getDerivedStateFromError(error: unknown) {
    return { error: error instanceof Error ? error.message : String(error) };
  }

  override render() {
    const { name, children } = this.props;
    if (this.state.error === undefined) return children;
    return (
      <div class="notice bad" role="alert">
        <p>
          <strong>The {name} failed.</strong> The rest of the page still works.{" "}
          <Line text={this.state.error} most={2_000} />
        </p>
        <button onClick={() => this.setState({ error: undefined })}>Show it again</button>
      </div>
    );
  }
}
