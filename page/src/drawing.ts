// Marks and text on a canvas.

export type Box = [number, number, number, number]; // left, top, right, bottom

export function disc(pen: CanvasRenderingContext2D, [x, y]: [number, number], r: number, inside: string, line: string, w: number): void {
  pen.beginPath();
  pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.fillStyle = inside;
  if (inside !== "transparent") pen.fill();
  pen.lineWidth = w;
  pen.strokeStyle = line;
  pen.stroke();
}

export function outlined(pen: CanvasRenderingContext2D, text: string, x: number, y: number, color: string, around: string): void {
  pen.lineJoin = "round";
  pen.lineWidth = 4;
  pen.strokeStyle = around;
  pen.strokeText(text, x, y);
  pen.fillStyle = color;
  pen.fillText(text, x, y);
}

export const overlap = (a: Box, b: Box): boolean => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
export const short = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text);
