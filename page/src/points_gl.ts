// All items as points, drawn by the graphics card in one call: 100,000 points are one buffer of 1.2 MB.

import type { Rgb } from "./palette";

const VERTEX = `#version 300 es
in vec2 place;
in float size;
in float color;
in float lit;
uniform vec2 scale, shift;
uniform float zoom, ratio;
uniform vec3 palette[16];
uniform float dim;
out vec4 shade;
void main() {
  gl_Position = vec4(place * scale + shift, 0.0, 1.0);
  gl_PointSize = clamp(size * zoom, 1.6, 22.0) * ratio;
  shade = vec4(palette[int(color)], mix(dim * 0.18, dim, lit));
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 shade;
out vec4 result;
void main() {
  float edge = length(gl_PointCoord - 0.5);
  if (edge > 0.5) discard;
  float alpha = shade.a * smoothstep(0.5, 0.38, edge);
  result = vec4(shade.rgb * alpha, alpha);
}`;

export interface View {
  x: number; // middle, in the coordinates of the map
  y: number;
  zoom: number; // 1: the whole map fits
}

export class PointsGl {
  private readonly gl: WebGL2RenderingContext;
  private readonly at: Record<string, WebGLUniformLocation | null> = {};
  private readonly litBuffer: WebGLBuffer | null;
  private n = 0;

  static make(canvas: HTMLCanvasElement): PointsGl | null {
    const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: false });
    return gl ? new PointsGl(gl) : null;
  }

  private constructor(gl: WebGL2RenderingContext) {
    this.gl = gl;
    const program = gl.createProgram();
    for (const [kind, text] of [
      [gl.VERTEX_SHADER, VERTEX],
      [gl.FRAGMENT_SHADER, FRAGMENT],
    ] as const) {
      const shader = gl.createShader(kind);
      if (!shader) throw new Error("no shader");
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    ["place", "size", "color", "lit"].forEach((name, i) => gl.bindAttribLocation(program, i, name));
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) ?? "not linked");
    gl.useProgram(program);
    for (const name of ["scale", "shift", "zoom", "ratio", "palette", "dim"])
      this.at[name] = gl.getUniformLocation(program, name);
    this.litBuffer = gl.createBuffer();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  private attribute(index: number, values: Float32Array | Uint8Array, width: number, buffer: WebGLBuffer | null): void {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    const kind = values instanceof Float32Array ? gl.FLOAT : gl.UNSIGNED_BYTE;
    gl.enableVertexAttribArray(index);
    gl.vertexAttribPointer(index, width, kind, index === 3, 0, 0);
  }

  points(places: Float32Array, sizes: Float32Array, colors: Uint8Array): void {
    this.n = colors.length;
    this.attribute(0, places, 2, this.gl.createBuffer());
    this.attribute(1, sizes, 1, this.gl.createBuffer());
    this.attribute(2, colors, 1, this.gl.createBuffer());
    this.light(null);
  }

  // Which points are drawn in full; null: all.
  light(chosen: Uint8Array | null): void {
    this.attribute(3, chosen ? chosen.map((one) => (one ? 255 : 0)) : new Uint8Array(this.n).fill(255), 1, this.litBuffer);
  }

  palette(colors: Rgb[]): void {
    const flat = new Float32Array(48);
    colors.forEach((color, i) => flat.set(color.map((one) => one / 255), 3 * i));
    this.gl.uniform3fv(this.at["palette"] ?? null, flat);
  }

  draw(width: number, height: number, ratio: number, view: View, scale: [number, number], middle: number, dim: number, most: number): void {
    const gl = this.gl;
    gl.viewport(0, 0, Math.round(width * ratio), Math.round(height * ratio));
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.at["scale"] ?? null, scale[0], scale[1]);
    gl.uniform2f(this.at["shift"] ?? null, middle - view.x * scale[0], -view.y * scale[1]);
    gl.uniform1f(this.at["zoom"] ?? null, Math.pow(view.zoom, 0.45));
    gl.uniform1f(this.at["ratio"] ?? null, ratio);
    gl.uniform1f(this.at["dim"] ?? null, dim);
    gl.drawArrays(gl.POINTS, 0, Math.min(this.n, most));
  }
}
